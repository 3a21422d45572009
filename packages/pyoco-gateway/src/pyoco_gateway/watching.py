"""Puts together what those who watch runs need."""

import resource
from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.event_streams.stream_limits import StreamLimits
from pyoco_gateway.read_model.run_hub import RunHub
from pyoco_gateway.use_cases.watch_run import WatchRun
from pyoco_gateway.use_cases.watch_runs import WatchRuns
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.settings import WatchSettings

# Other requests, the broker, files.
_OTHER_DESCRIPTORS: Final = 1024


@dataclass(frozen=True, slots=True)
class Watching:
    """The hub to feed and to run, and what the routes use of it."""

    hub: RunHub
    limits: StreamLimits
    broker: Broker

    @property
    def state(self) -> dict[str, Any]:
        """What the routes find in their request's state."""
        return {
            "stream_limits": self.limits,
            "watch_run": WatchRun(self.hub),
            "watch_runs": WatchRuns(self.broker, self.hub),
        }


def watching(settings: WatchSettings, broker: Broker, store: RunStore) -> Watching:
    """Return the parts of watching, and let this process open as many streams as it may."""
    _allow_descriptors(settings.sse_max_streams + _OTHER_DESCRIPTORS)
    return Watching(RunHub(store), StreamLimits(settings), broker)


def _allow_descriptors(wanted: int) -> None:
    # A common default is 1024, of which a stream is one.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
