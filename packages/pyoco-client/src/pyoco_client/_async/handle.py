"""A run in the hands of whoever submitted it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic import ValidationError

from pyoco_client import calls
from pyoco_client._async.following import AsyncFollowing
from pyoco_client._async.run_watch import AsyncRunWatch
from pyoco_client._async.transport import AsyncTransport
from pyoco_client.calls import Include
from pyoco_client.errors import (
    RunCancelled,
    RunFailed,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
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
    """One run: look at it, wait for it, cancel it.

    `accepted` is the answer to the submission and `is_replay` whether an earlier submission
    with the same key had made the run; None and False for a handle made from an id.
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
        calls.path_part("run id", run_id)
        self._transport = transport
        self._patience = patience
        self.id = run_id
        self.accepted = accepted
        self.is_replay = is_replay

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the gateway had to say about the submission, such as that no worker has the tag."""
        return self.accepted.warnings if self.accepted is not None else ()

    async def get(self, include: Include = None) -> Run:
        """Return the run as it is now; `include="records"` adds its task records."""
        return (await self._transport.ask(calls.run(self.id, include))).read_as(Run)

    async def tasks(self) -> RunTasks:
        """Return the task states and task records."""
        return (await self._transport.ask(calls.tasks(self.id))).read_as(RunTasks)

    async def wait(self, timeout: float | None = None, include: Include = None) -> Run:
        """Return the run once it is over; raise WaitTimeoutError after `timeout` seconds.

        A gateway or broker that is away for a while is waited for like the run itself.
        """
        watch = self._watch(include, timeout)
        async with aclosing(watch.events()) as events:
            async for _ in events:
                pass
        if watch.last is not None and watch.last.is_over:
            return watch.last
        last_status = None if watch.last is None else str(watch.last.status)
        raise WaitTimeoutError(self.id, timeout or 0.0, last_status) from watch.trouble

    async def watch(
        self, include: Include = None, timeout: float | None = None
    ) -> AsyncGenerator[Run]:
        """Yield the run as it is now and after each change, until it is over.

        A connection that breaks is made again. With `timeout` the watch ends after so many
        seconds, whatever the run does.
        """
        async with aclosing(self._watch(include, timeout).events()) as events:
            async for event in events:
                if event.run is not None:
                    yield event.run

    async def events(
        self, include: Include = None, timeout: float | None = None
    ) -> AsyncGenerator[WatchEvent]:
        """Yield what `watch` goes by: snapshots, and a heartbeat every other second."""
        async with aclosing(self._watch(include, timeout).events()) as events:
            async for event in events:
                yield event

    async def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Return what the last tasks returned, by their names, once the run is over.

        Raises RunFailed or RunCancelled where there is no result, each with the run as `run`.
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
        """Yield the lines that the run has printed so far; with `follow`, also those to come.

        `attempt` is a number, `latest` (as without it) or `all`.
        """
        pages = self._followed_logs if follow else self._kept_logs
        async with aclosing(pages(task, stream, attempt)) as lines:
            async for line in lines:
                yield line

    async def cancel(
        self, *, wait: bool = False, timeout: float | None = None, reason: str | None = None
    ) -> Run:
        """Return the run with the cancel recorded; with `wait`, once it is over.

        It can be repeated, and changes nothing about a run that is over.
        """
        run = (await self._transport.ask(calls.cancel(self.id, reason))).read_as(Run)
        return await self.wait(timeout) if wait and not run.is_over else run

    async def delete(self) -> None:
        """Remove the run and what it printed; raise RunNotOverError if it goes on."""
        await self._transport.ask(calls.delete_run(self.id))

    def _watch(self, include: Include, timeout: float | None) -> AsyncRunWatch:
        return AsyncRunWatch(
            self._transport,
            self.id,
            include=include,
            timeout=timeout,
            patience=self._patience,
        )

    async def _kept_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> AsyncGenerator[LogLine]:
        cursor: str | None = None
        while True:
            call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, cursor=cursor)
            page = (await self._transport.ask(call)).read_as(LogPage)
            for line in page.items:
                yield line
            # The run goes on and has printed nothing since: this is all there is.
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def _followed_logs(
        self, task: str | None, stream: str | None, attempt: int | str | None
    ) -> AsyncGenerator[LogLine]:
        call = calls.logs(self.id, task=task, stream=stream, attempt=attempt, follow=True)
        following = AsyncFollowing(self._transport, call, self._patience)
        async with aclosing(following.events()) as events:
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
