"""Finds runs that are in the index and no longer in the bucket.

A record that is deleted or expires leaves a mark, and the watch tells of it. A purge of the stream
leaves nothing. So the numbers are compared from time to time: the bucket keeps one message for
each key, so it holds at least as many as there are runs and unreadable records in the index.
It may hold more, for marks stay for a while. Fewer means ghosts.
"""

import logging
from typing import Final

import anyio

from pyoco_gateway.read_model.index_tables import IndexTables
from pyoco_gateway.read_model.run_index import RunIndex
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import bucket_state
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

_INTERVAL_SEC: Final = 5.0


class GhostCheck:
    """Has the index rebuilt where the bucket was purged."""

    def __init__(self, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex) -> None:
        self._broker = broker
        self._bucket = bucket
        self._watch = watch
        self._index = index

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await anyio.sleep(_INTERVAL_SEC)
            if not self._broker.is_up or not self._index.is_caught_up:
                continue
            try:
                await self._check()
            except (BrokerUnavailableError, RefusedError) as error:
                _log.debug("runs not compared with the bucket", extra={"reason": str(error)})

    async def _check(self) -> None:
        revision, known = await self._index.ask(_known)
        state = await bucket_state(self._broker.client, self._bucket)
        # A bucket that has moved on meanwhile is compared another time.
        if state.last_seq == revision and state.messages < known:
            _log.warning(
                "runs have vanished from the bucket; reading it anew",
                extra={"resource": self._bucket, "wanted": known, "found": state.messages},
            )
            self._watch.start_over()


def _known(tables: IndexTables) -> tuple[int, int]:
    return tables.revision, tables.runs + tables.unreadable
