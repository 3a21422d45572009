"""What goes on for long under a key ends when the key does."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_check import caller_by

# Nobody tells when a key expires, so that is looked for.
_LOOK_SEC: Final = 0.5


class Lease(Protocol):
    """How long a caller may be told things."""

    @property
    def is_over(self) -> bool:
        """Whether its key is good no more."""

    @property
    def is_sure(self) -> bool:
        """Whether that is known: while it is not, nothing may be told."""


class _Unlimited:
    is_over: Final = False
    is_sure: Final = True


class _KeyLease:
    """One for each stream, so that each is woken."""

    def __init__(self, ring: KeyCache, caller: Caller, on_end: Callable[[], None]) -> None:
        self._ring = ring
        self.caller = caller
        self.on_end = on_end
        self.is_over = False

    @property
    def is_sure(self) -> bool:
        return self._ring.is_ready


class KeyLeases:
    """Knows which streams are open under which keys, and ends them with their keys."""

    def __init__(self, ring: KeyCache, *, clock: Callable[[], float] = time.time) -> None:
        self._ring = ring
        self._clock = clock
        self._leases: dict[str, set[_KeyLease]] = {}
        ring.subscribe(self.look_at)

    @contextmanager
    def lease(self, caller: Caller, on_end: Callable[[], None]) -> Iterator[Lease]:
        """A lease of the caller's key; `on_end` is called when it is over."""
        key_id = caller.key_id or ""
        lease = _KeyLease(self._ring, caller, on_end)
        of_key = self._leases.setdefault(key_id, set())
        of_key.add(lease)
        try:
            # The key was good when the request came; the stream may open much later.
            self.look_at(key_id)
            yield lease
        finally:
            of_key.discard(lease)
            if not of_key and self._leases.get(key_id) is of_key:
                del self._leases[key_id]

    def look_at(self, key_id: str) -> None:
        """End what is open under a key that is over, gone, or another one than it was."""
        open_leases = self._leases.get(key_id)
        if not open_leases:
            return
        record = self._ring.find(key_id)
        if record is None and not self._ring.is_ready:
            # The keys are being read anew.
            return
        is_good = record is not None and record.is_valid_at(self._clock())
        caller = caller_by(record) if record is not None and is_good else None
        for lease in list(open_leases):
            if lease.caller != caller and not lease.is_over:
                lease.is_over = True
                lease.on_end()

    async def run(self) -> None:
        """Notice keys that expire, until cancelled."""
        while True:
            await anyio.sleep(_LOOK_SEC)
            for key_id in list(self._leases):
                self.look_at(key_id)


@contextmanager
def lease_of(
    leases: KeyLeases | None, caller: Caller, on_end: Callable[[], None]
) -> Iterator[Lease]:
    """A lease of the caller's key; one without end where authentication is off."""
    if leases is None:
        yield _Unlimited()
        return
    with leases.lease(caller, on_end) as lease:
        yield lease
