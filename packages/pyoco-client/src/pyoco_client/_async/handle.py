"""The handle of one run."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._async.resumed_stream import AsyncResumedStream
from pyoco_client._async.run_watch import AsyncRunWatch
from pyoco_client._async.transport import AsyncTransport
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


class AsyncRunHandle:
    """One run: read it, wait for it, cancel it.

    `accepted` is the answer to the submission. `is_replay` is True if an earlier submission with
    the same key created the run. A handle made from an id has None and False.
    """

    def __init__(
        self,
        transport: AsyncTransport,
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

    async def get(self, include: Include = None) -> Run:
        """Return the current snapshot of the run; `include="records"` adds its task records."""
        return (await self._transport.ask(calls.run(self.id, include))).read_as(Run)

    async def tasks(self) -> RunTasks:
        """Return the task states and task records."""
        return (await self._transport.ask(calls.tasks(self.id))).read_as(RunTasks)

    async def wait(self, timeout: float | None = None, include: Include = None) -> Run:
        """Return the run after it has ended; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is down for a while does not end the wait.
        """
        watch = self._watch(include, timeout)
        async with aclosing(watch.events()) as events:
            async for _ in events:
                pass
        if watch.last is not None and watch.last.is_over:
            return watch.last
        last_status = None if watch.last is None else str(watch.last.status)
        raise WaitTimeoutError(self.id, timeout or 0.0, last_status) from watch.contact.trouble

    async def watch(
        self,
        include: Include = None,
        timeout: float | None = None,
        *,
        on_outage: OnOutage | None = None,
    ) -> AsyncGenerator[Run]:
        """Yield the current snapshot and one after each change, until the run has ended.

        A broken connection is opened again. With `timeout` the watch ends after that many seconds,
        even if the run has not ended.

        `on_outage` is called with an `Outage` when the gateway does not answer or has no broker,
        and with None when the watch has caught up.
        """
        async with aclosing(self._watch(include, timeout, on_outage).events()) as events:
            async for event in events:
                if event.run is not None:
                    yield event.run

    async def events(
        self, include: Include = None, timeout: float | None = None
    ) -> AsyncGenerator[WatchEvent]:
        """Yield the events behind `watch`: snapshots, and a heartbeat every two seconds."""
        async with aclosing(self._watch(include, timeout).events()) as events:
            async for event in events:
                yield event

    async def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the results of the last tasks by task name, after the run has ended.

        Raises RunFailed or RunCancelled if there is no result; their `run` is the run.
        """
        run = await self.wait(timeout)
        if run.status is RunStatus.FAILED:
            raise RunFailed(run)
        if run.status is RunStatus.CANCELLED:
            raise RunCancelled(run)
        return dict(run.result or {})

    async def logs(
        self,
        follow: bool = False,
        *,
        task: str | None = None,
        stream: str | None = None,
        attempt: int | str | None = None,
    ) -> AsyncGenerator[LogLine]:
        """Yield the lines of the run's output; with `follow`, also new ones until the run ends.

        `attempt` is a number, `latest` (the default) or `all`.
        """
        pages = self._followed_logs if follow else self._stored_logs
        async with aclosing(pages(task, stream, attempt)) as lines:
            async for line in lines:
                yield line

    async def cancel(
        self, *, wait: bool = False, timeout: float | None = None, reason: str | None = None
    ) -> Run:
        """Return the run with its cancel recorded; with `wait`, after it has ended.

        A repeated cancel, or one of a run that has ended, changes nothing.
        """
        run = (await self._transport.ask(calls.cancel(self.id, reason))).read_as(Run)
        return await self.wait(timeout) if wait and not run.is_over else run

    async def delete(self) -> None:
        """Delete the run and its output; raise RunNotOverError if it has not ended."""
        await self._transport.ask(calls.delete_run(self.id))

    def _watch(
        self, include: Include, timeout: float | None, on_outage: OnOutage | None = None
    ) -> AsyncRunWatch:
        return AsyncRunWatch(
            self._transport,
            self.id,
            include=include,
            timeout=timeout,
            patience=self._patience,
            on_outage=on_outage,
        )

    async def _stored_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> AsyncGenerator[LogLine]:
        cursor: str | None = None
        while True:
            call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, cursor=cursor)
            page = (await self._transport.ask(call)).read_as(LogPage)
            for line in page.items:
                yield line
            # The same cursor again: the run has not ended and has no further output yet.
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def _followed_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> AsyncGenerator[LogLine]:
        call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, follow=True)
        resumed = AsyncResumedStream(self._transport, call, self._patience)
        async with aclosing(resumed.events()) as events:
            async for event in events:
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
