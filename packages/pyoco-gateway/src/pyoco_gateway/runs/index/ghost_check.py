"""Finds runs that are in the index and no longer in the bucket.

A record that is deleted or expires leaves a mark, and the watch tells of it. A purge of the stream
leaves nothing. So the numbers are compared from time to time: the bucket keeps one message for
each key, so it holds at least as many as there are runs and unreadable records in the index.
It may hold more, for marks stay for a while. Fewer means ghosts.
"""

import logging
from typing import Final

import anyio

from pyoco_gateway.runs.index.run_index import RunIndex
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import bucket_state
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

_INTERVAL_SEC: Final = 5.0


class GhostCheck:
    """Has the index rebuilt where the bucket was purged, or where it cannot catch up."""

    def __init__(self, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex) -> None:
        self._broker = broker
        self._bucket = bucket
        self._watch = watch
        self._index = index
        # How far the index was when it was last seen on its way.
        self._on_its_way: tuple[int, int] | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await anyio.sleep(_INTERVAL_SEC)
            if not self._broker.is_up:
                continue
            try:
                if self._index.is_caught_up:
                    self._on_its_way = None
                    await self._compare()
                else:
                    self._hasten()
            except BrokerUnavailableError as error:
                _log.debug("runs not compared with the bucket", extra={"reason": str(error)})
            except RefusedError as error:
                # Without its bucket no run is there any more, whatever the index holds.
                if error.is_missing:
                    self._watch.start_over()

    async def _compare(self) -> None:
        revision, known = await self._index.ask(_known)
        state = await bucket_state(self._broker.client, self._bucket)
        # A bucket that has moved on meanwhile is compared another time.
        if state.last_seq == revision and state.messages < known:
            _log.warning(
                "runs have vanished from the bucket; reading it anew",
                extra={"resource": self._bucket, "wanted": known, "found": state.messages},
            )
            self._watch.start_over()

    def _hasten(self) -> None:
        """Begin anew where nothing has come since the last look.

        What the index was promised may have been purged before it was told, and then the last of
        it, on which it waits, never comes.
        """
        now = (self._index.turn, self._index.revision)
        if now == self._on_its_way:
            _log.warning("runs are not told to the end", extra={"resource": self._bucket})
            self._watch.start_over()
        self._on_its_way = now


def _known(tables: IndexTables) -> tuple[int, int]:
    return tables.revision, tables.runs + tables.unreadable
