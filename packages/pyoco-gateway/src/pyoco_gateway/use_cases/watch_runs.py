"""Begins to watch all runs that somebody wants to see."""

from contextlib import ExitStack
from dataclasses import dataclass

from pyoco_gateway.event_streams.run_events import RunsEvents
from pyoco_gateway.read_model.run_filter import RunFilter
from pyoco_gateway.read_model.run_hub import RunHub
from pyoco_gateway.read_model.wakeup import Wakeup
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import BrokerUnavailableError


@dataclass(frozen=True, slots=True)
class WatchRuns:
    """Finds out what there is to tell: what the client has missed, and what comes."""

    broker: Broker
    hub: RunHub

    def __call__(self, wanted: RunFilter, held: ExitStack, *, after: int | None) -> RunsEvents:
        """Return what to tell after the revision `after`; `held` keeps the watch.

        Raises BrokerUnavailableError where nothing could be told now.
        """
        self.broker.require_up()
        if not self.hub.is_caught_up:
            raise BrokerUnavailableError("the runs are still being read")
        wakeup = Wakeup()
        watched = held.enter_context(self.hub.watching_all(wanted, wakeup, after=after))
        return RunsEvents(watched, wakeup)
