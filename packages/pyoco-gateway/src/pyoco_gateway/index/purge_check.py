"""Finds entries that are in the index and no longer in the stream.

A deleted or expired record leaves a marker, which the watch delivers. A purge of the stream leaves
nothing. So the counts are compared from time to time: a stream that holds fewer records than the
index needs for its entries was purged.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import anyio

from pyoco_gateway.index.followed_index import FollowedIndex
from pyoco_gateway.index.tables import C, Tables
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import StreamState, stream_state
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=Tables[Any])

_INTERVAL_SEC: Final = 5.0


class PurgeCheck(Generic[C, T]):
    """Rebuilds the index after a purge of the stream, or when it cannot catch up.

    `held` returns the number of records in the stream, `needed` how many of them the entries of the
    index and its unreadable records need at least.
    """

    def __init__(
        self,
        broker: Broker,
        stream: str,
        watch: StreamWatch,
        index: FollowedIndex[C, T],
        *,
        held: Callable[[StreamState], int],
        needed: Callable[[T], int],
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._watch = watch
        self._index = index
        self._held = held
        self._needed = needed
        # The index's session and revision at the last check that found it still catching up.
        self._last_progress: tuple[int, int] | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await anyio.sleep(_INTERVAL_SEC)
            await self.check()

    async def check(self) -> None:
        """Restart the watch if the index has entries that the stream has lost."""
        if not self._broker.is_up:
            return
        try:
            if self._index.is_caught_up:
                self._last_progress = None
                await self._compare()
            else:
                self._restart_if_stuck()
        except BrokerUnavailableError as error:
            _log.debug(
                "index not compared with its stream",
                extra={"resource": self._stream, "reason": str(error)},
            )
        except RefusedError as error:
            # Without the stream there are no records.
            if error.is_missing:
                self._watch.start_over()

    async def _compare(self) -> None:
        revision, needed = await self._index.query(
            lambda tables: (tables.revision, self._needed(tables))
        )
        state = await stream_state(self._broker.client, self._stream)
        held = self._held(state)
        # If the stream has changed since the query, the next check compares.
        if state.last_seq == revision and held < needed:
            _log.warning(
                "records have vanished from the stream; reading all of it again",
                extra={"resource": self._stream, "wanted": needed, "found": held},
            )
            self._watch.start_over()

    def _restart_if_stuck(self) -> None:
        """Restart the watch if the index has made no progress since the last check.

        The broker may have announced records that were purged before it delivered them. The watch
        would then wait for the last of them forever.
        """
        progress = (self._index.watch_session, self._index.revision)
        if progress == self._last_progress:
            _log.warning("not all records were delivered", extra={"resource": self._stream})
            self._watch.start_over()
        self._last_progress = progress
