"""The handle of one execution."""

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, Final

from pyoco_client import execution_calls
from pyoco_client._sync.execution_watch import ExecutionWatch
from pyoco_client._sync.node_handle import NodeHandle
from pyoco_client._sync.transport import Transport
from pyoco_client.contact import OnOutage
from pyoco_client.execution_calls import Texts
from pyoco_client.execution_errors import ExecutionWaitTimeoutError
from pyoco_client.execution_models import (
    CommandAnswer,
    Execution,
    ExecutionChange,
    ExecutionEvent,
    ExecutionEventPage,
    LogVerification,
)
from pyoco_client.http_call import path_part

_PAGE: Final = 200


class ExecutionHandle:
    """One execution: read it, wait for it, send commands to it.

    `accepted` is the answer to the creation. `is_replay` is True if an earlier creation with the
    same key made the execution. A handle made from an id has None and False.

    Commands are repeated after failures with the same idempotency key, so each is executed at most
    once. Pass `idempotency_key` to continue that in another process.
    """

    def __init__(
        self,
        transport: Transport,
        execution_id: str,
        *,
        patience: float,
        accepted: CommandAnswer | None = None,
        is_replay: bool = False,
    ) -> None:
        path_part("execution id", execution_id)
        self._transport = transport
        self._patience = patience
        self.id = execution_id
        self.accepted = accepted
        self.is_replay = is_replay

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def get(
        self,
        *,
        at_seq: int | None = None,
        min_seq: int | None = None,
        wait_sec: int | None = None,
        include_values: bool = False,
    ) -> Execution:
        """Return the current state, or that right after the event `at_seq`.

        With `min_seq` the gateway waits up to `wait_sec` seconds (default 5, at most 30) for that
        event, and the call raises SeqNotReachedError without it. With `include_values` the state
        has the input, outputs, prompts and the result.
        """
        call = execution_calls.execution(
            self.id,
            at_seq=at_seq,
            min_seq=min_seq,
            wait_sec=wait_sec,
            include_values=include_values,
        )
        return (self._transport.ask(call)).read_as(Execution)

    def start(self, *, idempotency_key: str | None = None) -> CommandAnswer:
        """Start the execution; a second start has no effect."""
        return self._command("start", {}, idempotency_key)

    def cancel(
        self, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> CommandAnswer:
        """Cancel the execution; it can then only end CANCELED.

        A repeated cancel, or one of an execution that has ended, has no effect. `wait` waits for
        the end.
        """
        return self._command("cancel", {"reason": reason}, idempotency_key)

    def archive(
        self, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> CommandAnswer:
        """Hide the execution from default lists; raise CommandRejectedError before its end."""
        return self._command("archive", {"reason": reason}, idempotency_key)

    def events(
        self, *, after_seq: int = 0, types: Texts = None, node_id: str | None = None
    ) -> Generator[ExecutionEvent]:
        """Yield the events so far, in order; pages are fetched as needed."""
        position: int | None = after_seq
        while position is not None:
            call = execution_calls.events(
                self.id, after_seq=position, limit=_PAGE, types=types, node_id=node_id
            )
            page = (self._transport.ask(call)).read_as(ExecutionEventPage)
            for event in page.items:
                yield event
            position = page.next_after_seq

    def watch(
        self,
        *,
        after_seq: int | None = None,
        timeout: float | None = None,
        on_outage: OnOutage | None = None,
    ) -> Generator[ExecutionChange]:
        """Yield a snapshot, each later event, and `end` after the execution has ended.

        With `after_seq` it begins with the events after that one instead of a snapshot. A broken
        connection is opened again and continues after the last event. While the gateway refuses
        another stream, the watch polls for the events. With `timeout` the watch ends after that
        many seconds, without `end` if the execution has not ended.

        `on_outage` is called with an `Outage` when the gateway does not answer or has no broker,
        and with None when the watch has caught up.
        """
        with closing(self._watch(after_seq, timeout, on_outage).changes()) as changes:
            for change in changes:
                yield change

    def wait(self, timeout: float | None = None, *, include_values: bool = False) -> Execution:
        """Return the execution after its end; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is down for a while does not end the wait.
        """
        watch = self._watch(None, timeout)
        with closing(watch.changes()) as changes:
            for _ in changes:
                pass
        if watch.is_over:
            return self.get(include_values=include_values)
        raise ExecutionWaitTimeoutError(
            self.id, timeout or 0.0, watch.status
        ) from watch.contact.trouble

    def verify(self) -> LogVerification:
        """Return whether the log is complete and unaltered; the gateway reads all of it."""
        answer = self._transport.ask(execution_calls.verification(self.id))
        return answer.read_as(LogVerification)

    def commit(self, n: int) -> bytes:
        """Return the stored bytes of a commit; their SHA-256 is the `prevHash` of the next one."""
        return (self._transport.ask(execution_calls.commit(self.id, n))).content

    def node(self, node_id: str) -> NodeHandle:
        """Return the handle of a node; no request is sent."""
        return NodeHandle(self._transport, self.id, node_id)

    def _watch(
        self, after_seq: int | None, timeout: float | None, on_outage: OnOutage | None = None
    ) -> ExecutionWatch:
        return ExecutionWatch(
            self._transport,
            self.id,
            after_seq=after_seq,
            timeout=timeout,
            patience=self._patience,
            on_outage=on_outage,
        )

    def _command(
        self, route: str, body: Mapping[str, Any], idempotency_key: str | None
    ) -> CommandAnswer:
        call = execution_calls.execution_command(self.id, route, body, idempotency_key)
        return (self._transport.ask(call)).read_as(CommandAnswer)
