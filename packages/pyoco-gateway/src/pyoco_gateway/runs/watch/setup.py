"""Puts together what those who watch runs need."""

import resource
from dataclasses import dataclass
from typing import Any, Final

import anyio
import anyio.to_thread

from pyoco_gateway.runs.index.run_tenants import RunTenants
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.runs.watch.many_runs import WatchRuns
from pyoco_gateway.runs.watch.one_run import WatchRun
from pyoco_gateway.streams.limits import StreamLimits
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.process_memory import release_free_memory
from pyoco_protocol.settings import WatchSettings

# Other requests, the broker, files.
_OTHER_DESCRIPTORS: Final = 1024
_TIDY_SEC: Final = 2.0
_MANY: Final = 50


@dataclass(frozen=True, slots=True)
class Watching:
    """The hub to feed, what to run beside it, and what the routes use of it."""

    hub: RunHub
    limits: StreamLimits
    broker: Broker

    async def run(self) -> None:
        """Keep watchers up to date, and memory in order behind them, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.hub.run)
            tasks.start_soon(self._tidy_up)

    async def _tidy_up(self) -> None:
        while True:
            await anyio.sleep(_TIDY_SEC)
            # What many large snapshots have passed through is not given back by itself.
            if self.limits.most >= _MANY and self.limits.open <= self.limits.most // 2:
                self.limits.most = self.limits.open
                await anyio.to_thread.run_sync(release_free_memory)

    @property
    def state(self) -> dict[str, Any]:
        """What the routes find in their request's state."""
        return {
            "stream_limits": self.limits,
            "watch_run": WatchRun(self.hub),
            "watch_runs": WatchRuns(self.broker, self.hub),
        }


def watching(
    settings: WatchSettings, broker: Broker, store: RunStore, owners: RunTenants
) -> Watching:
    """Return the parts of watching, and let this process open as many streams as it may."""
    _allow_descriptors(settings.sse_max_streams + _OTHER_DESCRIPTORS)
    return Watching(RunHub(store, owners), StreamLimits(settings), broker)


def _allow_descriptors(wanted: int) -> None:
    # A common default is 1024, of which a stream is one.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
