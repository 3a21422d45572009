"""Finds runs that are in the index and no longer in the bucket.

A deleted or expired record leaves a marker, which the watch delivers. A purge of the stream leaves
nothing. So the counts are compared from time to time: the bucket keeps one message for each key,
and markers stay for a while, so it holds at least as many messages as the index holds runs and
unreadable records. Fewer messages mean that records were purged.
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


class PurgeCheck:
    """Rebuilds the index after a purge of the bucket, or when it cannot catch up."""

    def __init__(self, broker: Broker, bucket: str, watch: BucketWatch, index: RunIndex) -> None:
        self._broker = broker
        self._bucket = bucket
        self._watch = watch
        self._index = index
        # The index's session and revision at the last check that found it still catching up.
        self._last_progress: tuple[int, int] | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await anyio.sleep(_INTERVAL_SEC)
            if not self._broker.is_up:
                continue
            try:
                if self._index.is_caught_up:
                    self._last_progress = None
                    await self._compare()
                else:
                    self._restart_if_stuck()
            except BrokerUnavailableError as error:
                _log.debug("runs not compared with the bucket", extra={"reason": str(error)})
            except RefusedError as error:
                # Without the bucket there are no runs.
                if error.is_missing:
                    self._watch.start_over()

    async def _compare(self) -> None:
        revision, known = await self._index.query(_revision_and_size)
        state = await bucket_state(self._broker.client, self._bucket)
        # If the bucket has changed since the query, the next check compares.
        if state.last_seq == revision and state.messages < known:
            _log.warning(
                "runs have vanished from the bucket; reading all of it again",
                extra={"resource": self._bucket, "wanted": known, "found": state.messages},
            )
            self._watch.start_over()

    def _restart_if_stuck(self) -> None:
        """Restart the watch if the index has made no progress since the last check.

        The broker may have announced records that were purged before it delivered them. The watch
        would then wait for the last of them forever.
        """
        progress = (self._index.watch_session, self._index.revision)
        if progress == self._last_progress:
            _log.warning("not all run records were delivered", extra={"resource": self._bucket})
            self._watch.start_over()
        self._last_progress = progress


def _revision_and_size(tables: IndexTables) -> tuple[int, int]:
    return tables.revision, tables.runs + tables.unreadable
