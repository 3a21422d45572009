"""Objects that the routes that watch runs receive."""

from dataclasses import dataclass

from pyoco_gateway.http.provided import Provided
from pyoco_gateway.runs.watch.many_runs import WatchRuns
from pyoco_gateway.runs.watch.one_run import WatchRun


@dataclass(frozen=True)
class WatchServices(Provided):
    """Open the event streams of one run and of many."""

    one_run: WatchRun
    many_runs: WatchRuns
