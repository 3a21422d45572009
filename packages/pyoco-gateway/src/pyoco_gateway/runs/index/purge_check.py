"""Compares the index of runs with the bucket."""

from pyoco_gateway.index import purge_check
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.subjects import kv_stream


class PurgeCheck(purge_check.PurgeCheck[RunChange, IndexTables]):
    """Rebuilds the index of runs after a purge of the bucket.

    The bucket keeps one message for each key, and markers stay for a while, so it holds at least as
    many messages as the index holds runs and unreadable records.
    """

    def __init__(self, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex) -> None:
        super().__init__(
            broker,
            kv_stream(bucket),
            watch,
            index,
            held=lambda state: state.messages,
            needed=lambda tables: tables.size + tables.unreadable,
        )
