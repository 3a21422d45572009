"""Starts a watch on one run."""

from contextlib import ExitStack
from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.shortening import shortened
from pyoco_gateway.runs.visibility import LookupIds, hiding_unreadable
from pyoco_gateway.runs.watch.events import RunEvents
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.runs.watch.states import RunState, StateKey
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.problems import RunNotFoundError


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The last change that the client has received: a revision, or else a time."""

    revision: int | None = None
    since: float = 0.0

    def includes(self, state: RunState, newest: int) -> bool:
        """Whether the client has received this state; `newest` is the newest known revision.

        A revision above the newest one comes from an earlier bucket and includes nothing.
        """
        if self.revision is not None:
            return state.revision <= self.revision <= max(newest, state.revision)
        return state.key is not None and 0.0 < state.key[1] <= self.since


@dataclass(frozen=True, slots=True)
class WatchRun:
    """Subscribes a client to one run of the caller."""

    hub: RunHub
    ids: LookupIds = field(default_factory=LookupIds)

    async def __call__(
        self,
        run_id: str,
        caller: Caller,
        received: ResumePoint,
        subscriptions: ExitStack,
        *,
        with_records: bool,
    ) -> RunEvents | None:
        """Return the events of a run; None if the client has received its terminal state.

        Only a revision proves that. A time does not, so that state is sent once more.
        Raises RunNotFoundError if the caller has no such run. Closing `subscriptions` ends the
        watch, which starts before the record is read so that no change is missed.
        """
        if not is_run_id(run_id):
            raise RunNotFoundError(shortened(run_id))
        wakeup = Wakeup()
        lookup_id = self.ids.of(run_id, caller)
        watched = subscriptions.enter_context(self.hub.watching(lookup_id, wakeup))
        with hiding_unreadable(caller, run_id):
            await self.hub.read(watched)
        state = watched.state
        if state is None or state.is_gone or not caller.owns(state.tenant_id):
            raise RunNotFoundError(run_id)
        sent: StateKey | None = None
        if received.includes(state, self.hub.revision):
            if not state.is_terminal:
                sent = state.key
            elif received.revision is not None:
                return None
        return RunEvents(watched, wakeup, with_records=with_records, sent=sent)
