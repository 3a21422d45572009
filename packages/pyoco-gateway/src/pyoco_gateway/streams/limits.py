"""Limits on open streams: per process, per client address and per key."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from starlette.requests import Request

from pyoco_gateway.access.caller import caller_of
from pyoco_gateway.http.client_address import client_address_of
from pyoco_gateway.http.provided import Provided, provided
from pyoco_protocol.problems import TooManyRequestsError
from pyoco_protocol.settings import WatchSettings

# Streams last for minutes; an earlier retry would mostly be refused again.
_RETRY_AFTER_SEC: Final = 5


class StreamLimits(Provided):
    """Counts the open streams and refuses those above the limits."""

    def __init__(self, settings: WatchSettings) -> None:
        self._limit = settings.sse_max_streams
        self._limit_per_address = settings.sse_max_streams_per_peer
        self._limit_per_key = settings.sse_max_streams_per_key
        self._by_address: Counter[str] = Counter()
        self._by_key: Counter[str] = Counter()
        # Peak of `open`; the reader of this value resets it.
        self.most = 0

    @property
    def open(self) -> int:
        """Number of open streams."""
        return self._by_address.total()

    @contextmanager
    def slot(self, address: str, key_id: str | None = None) -> Iterator[None]:
        """Count one stream of `address` while the context is open; raise TooManyRequestsError.

        `key_id` is None if authentication is off.
        """
        if (
            self._by_address[address] >= self._limit_per_address
            or (key_id is not None and self._by_key[key_id] >= self._limit_per_key)
            or self.open >= self._limit
        ):
            raise TooManyRequestsError(_RETRY_AFTER_SEC)
        with _counted(self._by_address, address), _counted(self._by_key, key_id):
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
    """Count one stream of the caller until `held` is closed; raise TooManyRequestsError."""
    limits = provided(request.scope, StreamLimits)
    caller = caller_of(request.scope)
    held.enter_context(limits.slot(client_address_of(request.scope), caller.key_id))
