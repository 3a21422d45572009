"""Ends open streams when the API key they were opened with is revoked or expires."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_check import caller_with

# The key cache reports changed keys, but not keys that expire.
_EXPIRY_CHECK_SEC: Final = 0.5


class StreamPermit(Protocol):
    """Whether one stream may go on."""

    @property
    def has_ended(self) -> bool:
        """Whether the key is no longer valid."""

    @property
    def is_known(self) -> bool:
        """Whether the key's validity is known; while it is not, no event may be sent."""


class _Unlimited:
    has_ended: Final = False
    is_known: Final = True


class _KeyPermit:
    """The permit of one stream under a key."""

    def __init__(self, cache: KeyCache, caller: Caller, on_end: Callable[[], None]) -> None:
        self._cache = cache
        self.caller = caller
        self.on_end = on_end
        self.has_ended = False

    @property
    def is_known(self) -> bool:
        return self._cache.is_ready


class StreamPermits:
    """The permits of all open streams, by key id."""

    def __init__(self, cache: KeyCache, *, clock: Callable[[], float] = time.time) -> None:
        self._cache = cache
        self._clock = clock
        self._permits: dict[str, set[_KeyPermit]] = {}
        cache.subscribe(self.check)

    @contextmanager
    def permit(self, caller: Caller, on_end: Callable[[], None]) -> Iterator[StreamPermit]:
        """Yield a permit under the caller's key; `on_end` is called when it ends."""
        key_id = caller.key_id or ""
        permit = _KeyPermit(self._cache, caller, on_end)
        of_key = self._permits.setdefault(key_id, set())
        of_key.add(permit)
        try:
            # The key may have changed since the request was authenticated.
            self.check(key_id)
            yield permit
        finally:
            of_key.discard(permit)
            if not of_key and self._permits.get(key_id) is of_key:
                del self._permits[key_id]

    def check(self, key_id: str) -> None:
        """End the permits under a key that is invalid, deleted, or has another tenant or scopes."""
        permits = self._permits.get(key_id)
        if not permits:
            return
        record = self._cache.find(key_id)
        if record is None and not self._cache.is_ready:
            # The cache is being rebuilt.
            return
        is_valid = record is not None and record.is_valid_at(self._clock())
        caller = caller_with(record) if record is not None and is_valid else None
        for permit in list(permits):
            if permit.caller != caller and not permit.has_ended:
                permit.has_ended = True
                permit.on_end()

    async def run(self) -> None:
        """End the permits under keys that expire, until cancelled."""
        while True:
            await anyio.sleep(_EXPIRY_CHECK_SEC)
            for key_id in list(self._permits):
                self.check(key_id)


@contextmanager
def stream_permit_of(
    permits: StreamPermits | None, caller: Caller, on_end: Callable[[], None]
) -> Iterator[StreamPermit]:
    """Yield a permit for the caller of a request; it never ends if authentication is off."""
    if permits is None:
        yield _Unlimited()
        return
    with permits.permit(caller, on_end) as permit:
        yield permit
