"""How many streams may be open: in this process, for one peer, and with one key."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from starlette.requests import Request

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.peers import peer_of
from pyoco_gateway.http.provided import Provided, provided
from pyoco_protocol.problems import TooManyRequestsError
from pyoco_protocol.settings import WatchSettings

# Streams last for minutes; who comes back sooner would mostly be refused again.
_RETRY_AFTER_SEC: Final = 5


class StreamLimits(Provided):
    """Counts the open streams and refuses those above the limits."""

    def __init__(self, settings: WatchSettings) -> None:
        self._limit = settings.sse_max_streams
        self._limit_per_peer = settings.sse_max_streams_per_peer
        self._limit_per_key = settings.sse_max_streams_per_key
        self._by_peer: Counter[str] = Counter()
        self._by_key: Counter[str] = Counter()
        # The most there were at once; set anew by whoever has taken note of it.
        self.most = 0

    @property
    def open(self) -> int:
        """How many streams are open now."""
        return self._by_peer.total()

    @contextmanager
    def slot(self, peer: str, key_id: str | None = None) -> Iterator[None]:
        """A place for one stream of `peer`; raise TooManyRequestsError where there is none.

        `key_id` is that of the key it comes with, where keys are asked for.
        """
        if (
            self._by_peer[peer] >= self._limit_per_peer
            or (key_id is not None and self._by_key[key_id] >= self._limit_per_key)
            or self.open >= self._limit
        ):
            raise TooManyRequestsError(_RETRY_AFTER_SEC)
        with _counted(self._by_peer, peer), _counted(self._by_key, key_id):
            self.most = max(self.most, self.open)
            yield


@contextmanager
def _counted(counter: Counter[str], name: str | None) -> Iterator[None]:
    if name is None:
        yield
        return
    counter[name] += 1
    try:
        yield
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


def take_slot(request: Request, held: ExitStack) -> None:
    """Have `held` keep a place for one stream of the caller; raise where there is none."""
    limits = provided(request.scope, StreamLimits)
    caller = caller_of(request.scope)
    held.enter_context(limits.slot(peer_of(request.scope), caller.key_id))
