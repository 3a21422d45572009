"""Begins to watch all runs that somebody wants to see."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.watch.events import RunsEvents
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import ListNotReadyError

# A browser that is answered 503 does not come back; those of a gateway that was restarted come
# all at once, while it still reads.
_CATCH_UP_SEC: Final = 5.0
_RETRY_AFTER_SEC: Final = 2


@dataclass(frozen=True, slots=True)
class WatchRuns:
    """Finds out what there is to tell: what the client has missed, and what comes."""

    broker: Broker
    hub: RunHub

    async def __call__(
        self, wanted: WatchFilter, caller: Caller, held: ExitStack, *, after: int | None
    ) -> RunsEvents:
        """Return what to tell of the caller's runs, after the revision `after`.

        `held` keeps the watch. Raises BrokerUnavailableError where nothing could be told now, and
        ListNotReadyError where the runs are still being read.
        """
        self.broker.require_up()
        if not await self.hub.is_caught_up(within_sec=_CATCH_UP_SEC):
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        wakeup = Wakeup()
        own = replace(wanted, tenant_id=caller.tenant_id)
        watched = held.enter_context(self.hub.watching_all(own, wakeup, after=after))
        return RunsEvents(watched, wakeup)
