"""A command on its way: who sends it, and the request that carries it."""

from dataclasses import dataclass

from pyoco_gateway.executions.log.logged_state import key_digest
from pyoco_protocol.executions.actors import Actor
from pyoco_protocol.executions.commands import AnyCommand, NodeCommandBase
from pyoco_protocol.executions.commits import CommandRecord


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """An HTTP request with an idempotency key, and the hash of its body."""

    endpoint: str
    key: str
    request_hash: str

    @property
    def digest(self) -> str:
        """The name under which a state remembers the key."""
        return key_digest(self.endpoint, self.key)

    def is_of(self, command: CommandRecord) -> bool:
        """Whether a commit answers a request with this key to this endpoint."""
        return (command.endpoint, command.idempotency_key) == (self.endpoint, self.key)


@dataclass(frozen=True, slots=True)
class Requested:
    """A command with its actor."""

    command: AnyCommand
    actor: Actor
    correlation_id: str | None = None
    # None for commands of the server itself, which have a trigger.
    keyed: KeyedRequest | None = None
    trigger: str | None = None

    def record(self, *, is_stored: bool) -> CommandRecord:
        """Return what the commit says about the command.

        The idempotency key is left out unless the commit stores its answer.
        """
        keyed = self.keyed if is_stored else None
        command = self.command
        return CommandRecord(
            name=command.name,
            actor=self.actor,
            node_id=command.node_id if isinstance(command, NodeCommandBase) else None,
            correlation_id=self.correlation_id,
            endpoint=None if keyed is None else keyed.endpoint,
            idempotency_key=None if keyed is None else keyed.key,
            request_hash=None if keyed is None else keyed.request_hash,
            trigger=self.trigger,
        )
