"""The handle of one run."""

from collections.abc import Generator
from contextlib import closing
from typing import Any

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._sync.resumed_stream import ResumedStream
from pyoco_client._sync.run_watch import RunWatch
from pyoco_client._sync.transport import Transport
from pyoco_client.calls import Include
from pyoco_client.contact import OnOutage
from pyoco_client.errors import (
    RunCancelled,
    RunFailed,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from pyoco_client.http_call import path_part
from pyoco_client.models import (
    Accepted,
    LogLine,
    LogPage,
    Run,
    RunStatus,
    RunTasks,
    WatchEvent,
)


class RunHandle:
    """One run: read it, wait for it, cancel it.

    `accepted` is the answer to the submission. `is_replay` is True if an earlier submission with
    the same key created the run. A handle made from an id has None and False.
    """

    def __init__(
        self,
        transport: Transport,
        run_id: str,
        *,
        patience: float,
        accepted: Accepted | None = None,
        is_replay: bool = False,
    ) -> None:
        path_part("run id", run_id)
        self._transport = transport
        self._patience = patience
        self.id = run_id
        self.accepted = accepted
        self.is_replay = is_replay

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The gateway's warnings about the submission, such as that no worker has the tag."""
        return self.accepted.warnings if self.accepted is not None else ()

    def get(self, include: Include = None) -> Run:
        """Return the current snapshot of the run; `include="records"` adds its task records."""
        return (self._transport.ask(calls.run(self.id, include))).read_as(Run)

    def tasks(self) -> RunTasks:
        """Return the task states and task records."""
        return (self._transport.ask(calls.tasks(self.id))).read_as(RunTasks)

    def wait(self, timeout: float | None = None, include: Include = None) -> Run:
        """Return the run after it has ended; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is down for a while does not end the wait.
        """
        watch = self._watch(include, timeout)
        with closing(watch.events()) as events:
            for _ in events:
                pass
        if watch.last is not None and watch.last.is_over:
            return watch.last
        last_status = None if watch.last is None else str(watch.last.status)
        raise WaitTimeoutError(self.id, timeout or 0.0, last_status) from watch.contact.trouble

    def watch(
        self,
        include: Include = None,
        timeout: float | None = None,
        *,
        on_outage: OnOutage | None = None,
    ) -> Generator[Run]:
        """Yield the current snapshot and one after each change, until the run has ended.

        A broken connection is opened again. With `timeout` the watch ends after that many seconds,
        even if the run has not ended.

        `on_outage` is called with an `Outage` when the gateway does not answer or has no broker,
        and with None when the watch has caught up.
        """
        with closing(self._watch(include, timeout, on_outage).events()) as events:
            for event in events:
                if event.run is not None:
                    yield event.run

    def events(
        self, include: Include = None, timeout: float | None = None
    ) -> Generator[WatchEvent]:
        """Yield the events behind `watch`: snapshots, and a heartbeat every two seconds."""
        with closing(self._watch(include, timeout).events()) as events:
            for event in events:
                yield event

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the results of the last tasks by task name, after the run has ended.

        Raises RunFailed or RunCancelled if there is no result; their `run` is the run.
        """
        run = self.wait(timeout)
        if run.status is RunStatus.FAILED:
            raise RunFailed(run)
        if run.status is RunStatus.CANCELLED:
            raise RunCancelled(run)
        return dict(run.result or {})

    def logs(
        self,
        follow: bool = False,
        *,
        task: str | None = None,
        stream: str | None = None,
        attempt: int | str | None = None,
    ) -> Generator[LogLine]:
        """Yield the lines of the run's output; with `follow`, also new ones until the run ends.

        `attempt` is a number, `latest` (the default) or `all`.
        """
        pages = self._followed_logs if follow else self._stored_logs
        with closing(pages(task, stream, attempt)) as lines:
            for line in lines:
                yield line

    def cancel(
        self, *, wait: bool = False, timeout: float | None = None, reason: str | None = None
    ) -> Run:
        """Return the run with its cancel recorded; with `wait`, after it has ended.

        A repeated cancel, or one of a run that has ended, changes nothing.
        """
        run = (self._transport.ask(calls.cancel(self.id, reason))).read_as(Run)
        return self.wait(timeout) if wait and not run.is_over else run

    def delete(self) -> None:
        """Delete the run and its output; raise RunNotOverError if it has not ended."""
        self._transport.ask(calls.delete_run(self.id))

    def _watch(
        self, include: Include, timeout: float | None, on_outage: OnOutage | None = None
    ) -> RunWatch:
        return RunWatch(
            self._transport,
            self.id,
            include=include,
            timeout=timeout,
            patience=self._patience,
            on_outage=on_outage,
        )

    def _stored_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> Generator[LogLine]:
        cursor: str | None = None
        while True:
            call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, cursor=cursor)
            page = (self._transport.ask(call)).read_as(LogPage)
            for line in page.items:
                yield line
            # The same cursor again: the run has not ended and has no further output yet.
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    def _followed_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> Generator[LogLine]:
        call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, follow=True)
        resumed = ResumedStream(self._transport, call, self._patience)
        with closing(resumed.events()) as events:
            for event in events:
                if event.event == "end":
                    return
                if event.event == "log":
                    for line in self._lines(event.data):
                        yield line

    def _lines(self, data: str) -> tuple[LogLine, ...]:
        try:
            return LogPage.model_validate_json(data).items
        except ValidationError as error:
            raise UnexpectedAnswerError(self._transport.server, f"a log with {error}") from error
