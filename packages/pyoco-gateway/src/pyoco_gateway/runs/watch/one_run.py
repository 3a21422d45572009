"""Begins to watch a run."""

from contextlib import ExitStack
from dataclasses import dataclass

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.shortening import shortened
from pyoco_gateway.runs.visibility import hiding_unreadable
from pyoco_gateway.runs.watch.events import RunEvents
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.runs.watch.states import Mark, RunState
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.problems import RunNotFoundError


@dataclass(frozen=True, slots=True)
class Resumption:
    """What the client has seen: up to a revision, or else up to a time."""

    revision: int | None = None
    since: float = 0.0

    def covers(self, state: RunState, newest: int) -> bool:
        """Whether the client has seen this state; `newest` is the newest revision we know of.

        A higher revision than there is comes from a bucket that is no more, and shows nothing.
        """
        if self.revision is not None:
            return state.revision <= self.revision <= max(newest, state.revision)
        return state.mark is not None and 0.0 < state.mark[1] <= self.since


@dataclass(frozen=True, slots=True)
class WatchRun:
    """Finds out what there is to tell of a run: what stands now, and what comes."""

    hub: RunHub

    async def __call__(
        self, run_id: str, caller: Caller, seen: Resumption, held: ExitStack, *, with_records: bool
    ) -> RunEvents | None:
        """Return what to tell; None where the client has seen the end.

        Raises RunNotFoundError where the caller has no such run. `held` keeps the watch: it begins
        before the record is read, so that no change falls in between.
        """
        if not is_run_id(run_id):
            raise RunNotFoundError(shortened(run_id))
        wakeup = Wakeup()
        watched = held.enter_context(self.hub.watching(run_id, wakeup))
        with hiding_unreadable(caller, run_id):
            await self.hub.read(watched)
        state = watched.state
        if state is None or state.is_gone or not caller.owns(state.tenant_id):
            raise RunNotFoundError(run_id)
        told: Mark | None = None
        if seen.covers(state, self.hub.revision):
            if state.is_terminal:
                return None
            told = state.mark
        return RunEvents(watched, wakeup, with_records=with_records, told=told)
