"""Puts the read model together: one watch, those who follow it, and who answers from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from anyio.abc import TaskGroup

from pyoco_gateway.runs.feed import RunFeed, RunFollower
from pyoco_gateway.runs.index.purge_check import PurgeCheck
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker


@dataclass(frozen=True, slots=True)
class ReadModel:
    """What is known of all runs, and where it comes from."""

    index: RunIndex
    feed: RunFeed
    watch: BucketWatch
    purge_check: PurgeCheck

    @classmethod
    def of(
        cls, broker: Broker, bucket: str, index: RunIndex, followers: Sequence[RunFollower]
    ) -> "ReadModel":
        """Return a read model whose one watch tells `index` and all `followers`."""
        feed = RunFeed([index, *followers])
        watch = BucketWatch(broker, bucket, feed, room=index.wait_for_capacity)
        index.watch_position = lambda: watch.revision
        return cls(index, feed, watch, PurgeCheck(broker, bucket, watch, index))

    def start(self, tasks: TaskGroup) -> None:
        """Run all of it in a task group."""
        tasks.start_soon(self.index.run)
        tasks.start_soon(self.watch.run)
        tasks.start_soon(self.purge_check.run)
