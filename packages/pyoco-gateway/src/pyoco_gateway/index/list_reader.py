"""Reads lists from an index, and refuses while it is incomplete."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pyoco_gateway.index.followed_index import FollowedIndex
from pyoco_gateway.index.signed_cursors import CursorError
from pyoco_gateway.index.tables import C, Tables
from pyoco_protocol.jetstream.bucket_watch import StreamWatch
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.inspection import stream_state
from pyoco_protocol.problems.base import PyocoError

F = TypeVar("F")
T = TypeVar("T", bound=Tables[Any])

RETRY_AFTER_SEC: Final = 2

# How long a request waits for an index that is being built before it is answered 503.
_BUILD_WAIT_SEC: Final = 2.0
# A write reaches the index some milliseconds after it is stored.
_OWN_WRITES_WAIT_SEC: Final = 0.25


class ListReader(Generic[C, T]):
    """Answers queries from a complete index only; raises what `not_ready` returns otherwise.

    A page that silently lacks entries is worse than an error.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        stream: str,
        watch: StreamWatch,
        index: FollowedIndex[C, T],
        not_ready: Callable[[], PyocoError],
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._watch = watch
        self._index = index
        self._not_ready = not_ready

    async def wait_until_ready(self) -> str:
        """Return the creation time of the stream, once the index has this gateway's own writes."""
        self._broker.require_up()
        if await self._index.wait_until_caught_up(_BUILD_WAIT_SEC):
            await self._index.wait_for_own_writes(_OWN_WRITES_WAIT_SEC)
        # The broker may have disconnected during the wait.
        self._broker.require_up()
        created = self._watch.created
        if created is None or not self._index.is_caught_up:
            raise self._not_ready()
        return created

    async def wait_for(self, revision: int) -> None:
        """Wait until the index holds a cursor's revision; another gateway may be ahead.

        Raises CursorError for a revision that the stream does not have.
        """
        if await self._index.wait_for_revision(revision, _OWN_WRITES_WAIT_SEC):
            return
        state = await stream_state(self._broker.require_up(), self._stream)
        if state.last_seq < revision:
            raise CursorError(
                "is ahead of the stored data, which was restored; start again without it"
            )
        raise self._not_ready()

    async def query(self, query: Callable[[T], F]) -> F:
        """Return the result of `query`, which runs on the index thread."""
        session = self._index.watch_session
        found = await self._index.query(query)
        if self._index.watch_session != session:
            # The stream may have been replaced and the index half rebuilt during the query.
            raise self._not_ready()
        return found
