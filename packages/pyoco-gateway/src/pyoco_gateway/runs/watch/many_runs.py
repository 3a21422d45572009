"""Starts a watch on all runs that match a filter."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.watch.events import RunListEvents
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import ListNotReadyError

# Browsers do not reconnect after a 503, and all of them reconnect at once after a restart, while
# the gateway still reads the runs.
_CATCH_UP_SEC: Final = 5.0
_RETRY_AFTER_SEC: Final = 2


@dataclass(frozen=True, slots=True)
class WatchRuns:
    """Subscribes a client to the changes of the caller's runs."""

    broker: Broker
    hub: RunHub

    async def __call__(
        self,
        run_filter: WatchFilter,
        caller: Caller,
        subscriptions: ExitStack,
        *,
        after: int | None,
    ) -> RunListEvents:
        """Return the events of the caller's runs after the revision `after`.

        Closing `subscriptions` ends the watch. Raises BrokerUnavailableError if the broker is
        disconnected, and ListNotReadyError while the runs are still being read.
        """
        self.broker.require_up()
        if not await self.hub.wait_until_caught_up(timeout_sec=_CATCH_UP_SEC):
            raise ListNotReadyError(_RETRY_AFTER_SEC)
        wakeup = Wakeup()
        own = replace(run_filter, tenant_id=caller.tenant_id)
        subscription = subscriptions.enter_context(self.hub.watching_all(own, wakeup, after=after))
        return RunListEvents(subscription, wakeup)
