"""The commit record: one message of the log, with a command, its events and the head after it."""

import hashlib
import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pyoco_protocol.executions.actors import ORCHESTRATOR, Actor
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.events import (
    AnyEvent,
    UnknownEventError,
    event_from_wire,
)
from pyoco_protocol.executions.instants import INSTANT_PATTERN

COMMIT_VERSION: Final = 1
_CHAIN_START: Final = "pyoco.exec.v1:"
_INSTANT: Final = re.compile(INSTANT_PATTERN, re.ASCII)
_EVENT_NAMESPACE: Final = uuid.UUID("0a1f2b1e-5c3d-5e8a-9b64-3f1c7d2e8a90")


class CommitTooNewError(ValueError):
    """A commit has a version, or an event type, that this version does not know."""


class CommitDamagedError(ValueError):
    """The bytes of a commit are not a commit record."""


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """The command of a commit, and the request that sent it, if it came over HTTP."""

    name: str
    actor: Actor
    node_id: str | None = None
    correlation_id: str | None = None
    endpoint: str | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    # What made a timer or a run send the command.
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of a commit; `cause` is the seq of the event that led to it."""

    type: str
    payload: JsonObject
    cause: int | None = None

    def event(self) -> AnyEvent:
        """Return the typed event; raise CommitTooNewError or CommitDamagedError."""
        try:
            return event_from_wire(self.type, self.payload)
        except UnknownEventError as error:
            raise CommitTooNewError(f"unknown event type {self.type}") from error
        except ValidationError as error:
            raise CommitDamagedError(f"the payload of {self.type} is invalid") from error


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit. The numbers of its events are `first_seq` and those after it."""

    commit_id: str
    execution_id: str
    tenant_id: str
    n: int
    first_seq: int
    at: str
    prev_hash: str
    command: CommandRecord
    events: tuple[EventRecord, ...]
    head: JsonObject
    # The stored answer: status and body. Only commits with an idempotency key have one.
    answer: JsonObject | None = None

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        return self.first_seq + len(self.events) - 1

    def actor_of(self, event: EventRecord) -> Actor:
        """Return the actor of an event: the orchestrator, if another event caused it."""
        return self.command.actor if event.cause is None else ORCHESTRATOR

    def to_bytes(self) -> bytes:
        """Return the message body."""
        command = self.command
        members: dict[str, Any] = {
            "v": COMMIT_VERSION,
            "commitId": self.commit_id,
            "executionId": self.execution_id,
            "tenantId": self.tenant_id,
            "n": self.n,
            "firstSeq": self.first_seq,
            "at": self.at,
            "prevHash": self.prev_hash,
            "command": _present(
                {
                    "name": command.name,
                    "nodeId": command.node_id,
                    "actor": command.actor.model_dump(mode="json", exclude_none=True),
                    "correlationId": command.correlation_id,
                    "endpoint": command.endpoint,
                    "idempotencyKey": command.idempotency_key,
                    "requestHash": command.request_hash,
                    "trigger": command.trigger,
                }
            ),
            "events": [
                _present({"type": each.type, "payload": each.payload, "cause": each.cause})
                for each in self.events
            ],
            "answer": self.answer,
            "head": self.head,
        }
        return to_json(_present(members))


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def commit_from(body: bytes) -> CommitRecord:
    """Return the commit in a message body; raise CommitTooNewError or CommitDamagedError.

    The types of events are not checked here: `EventRecord.event` does that.
    """
    try:
        members = from_json(body)
        version = members["v"]
        if version != COMMIT_VERSION:
            raise CommitTooNewError(f"commit version {str(version)[:20]}")
        command = members["command"]
        return CommitRecord(
            commit_id=_text(members["commitId"]),
            execution_id=_text(members["executionId"]),
            tenant_id=_text(members["tenantId"]),
            n=_number(members["n"]),
            first_seq=_number(members["firstSeq"]),
            at=_instant(members["at"]),
            prev_hash=_text(members["prevHash"]),
            command=CommandRecord(
                name=_text(command["name"]),
                actor=Actor.model_validate(command["actor"]),
                node_id=_optional_text(command.get("nodeId")),
                correlation_id=_optional_text(command.get("correlationId")),
                endpoint=_optional_text(command.get("endpoint")),
                idempotency_key=_optional_text(command.get("idempotencyKey")),
                request_hash=_optional_text(command.get("requestHash")),
                trigger=_optional_text(command.get("trigger")),
            ),
            events=_events(members["events"]),
            head=_object(members["head"]),
            answer=None if members.get("answer") is None else _object(members["answer"]),
        )
    except CommitTooNewError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CommitDamagedError("the message is not a commit record") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _instant(value: object) -> str:
    text = _text(value)
    if _INSTANT.fullmatch(text) is None:
        raise ValueError(text)
    # Raises ValueError for a day or an hour that does not exist.
    datetime.fromisoformat(text)
    return text


def _events(value: Any) -> tuple[EventRecord, ...]:
    events = tuple(
        EventRecord(
            _text(each["type"]),
            _object(each["payload"]),
            None if each.get("cause") is None else _number(each["cause"]),
        )
        for each in value
    )
    if not events:
        raise ValueError("a commit without events")
    return events


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError(value)
    return value


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def chain_start(execution_id: str) -> str:
    """Return the `prevHash` of the first commit of an execution."""
    return hashlib.sha256(f"{_CHAIN_START}{execution_id}".encode()).hexdigest()


def hash_of_commit(body: bytes) -> str:
    """Return the SHA-256 of a commit as it is stored, which the next commit carries."""
    return hashlib.sha256(body).hexdigest()


def event_id(execution_id: str, seq: int) -> str:
    """Return the id of an event, which follows from its place in the log."""
    return str(uuid.uuid5(_EVENT_NAMESPACE, f"{execution_id}:{seq}"))
