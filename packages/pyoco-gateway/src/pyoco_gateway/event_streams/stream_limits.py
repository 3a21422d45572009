"""How many streams may be open: in this process, and for one peer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from starlette.requests import Request

from pyoco_protocol.problems import TooManyRequestsError
from pyoco_protocol.settings import WatchSettings

# Streams last for minutes; who comes back sooner would mostly be refused again.
_RETRY_AFTER_SEC: Final = 5


class StreamLimits:
    """Counts the open streams and refuses those above the limits."""

    def __init__(self, settings: WatchSettings) -> None:
        self._limit = settings.sse_max_streams
        self._limit_per_peer = settings.sse_max_streams_per_peer
        self._by_peer: Counter[str] = Counter()
        # The most there were at once; set anew by whoever has taken note of it.
        self.most = 0

    @property
    def open(self) -> int:
        """How many streams are open now."""
        return self._by_peer.total()

    @contextmanager
    def slot(self, peer: str) -> Iterator[None]:
        """A place for one stream of `peer`; raise TooManyRequestsError where there is none."""
        if self._by_peer[peer] >= self._limit_per_peer or self.open >= self._limit:
            raise TooManyRequestsError(_RETRY_AFTER_SEC)
        self._by_peer[peer] += 1
        self.most = max(self.most, self.open)
        try:
            yield
        finally:
            self._by_peer[peer] -= 1
            if not self._by_peer[peer]:
                del self._by_peer[peer]


def take_slot(request: Request, held: ExitStack) -> None:
    """Have `held` keep a place for one stream of the caller; raise where there is none."""
    limits: StreamLimits = request.state.stream_limits
    held.enter_context(limits.slot(request.client.host if request.client else ""))
