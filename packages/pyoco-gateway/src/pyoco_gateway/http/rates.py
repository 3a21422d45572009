"""How often something may happen: so many times at once, and so many a second in the long run."""

import time
from collections.abc import Callable, Hashable
from typing import Final

# How many are remembered in one generation; there are two.
MAX_KEPT: Final = 10_000
# So often may an address ask without a key that is good before its answers are held up a little.
STRANGERS_PER_SEC: Final = 50.0
STRANGERS_AT_ONCE: Final = 100
# An answer costs little, but who asks again at once would have all there is. So those who show
# no good key wait for theirs: each connection then takes a hundredth of our time.
HOLD_SEC: Final = 0.01
# What adding up many small steps may be off by.
_TOLERANCE_SEC: Final = 1e-6


class Rates:
    """A token bucket for each who asks.

    A bucket is one number: until when its tokens are spent. One that has filled up again says
    nothing that is not true of a new one, so those that were not used for as long as that takes
    are forgotten, a whole generation at a time. So are they where there are too many: who can
    ask under ever new names gains a full bucket by it, and takes no memory.
    """

    def __init__(
        self,
        per_sec: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_kept: int = MAX_KEPT,
    ) -> None:
        self._step = 1 / per_sec
        self._slack = (burst - 1) * self._step
        self._clock = clock
        self._max_kept = max_kept
        self._lifetime = burst * self._step
        self._newer: dict[Hashable, float] = {}
        self._older: dict[Hashable, float] = {}
        self._turn_at = clock() + self._lifetime

    def __len__(self) -> int:
        """Return how many buckets are kept."""
        return len(self._newer) + len(self._older)

    def wait_for(self, who: Hashable) -> float:
        """Take a token of `who` and return 0.0; where there is none, return when there is one.

        Asking in vain costs nothing: whoever comes back after that time is let in.
        """
        now = self._clock()
        if now >= self._turn_at or len(self._newer) >= self._max_kept:
            self._older, self._newer = self._newer, {}
            self._turn_at = now + self._lifetime
        spent_until = self._newer.get(who)
        if spent_until is None:
            spent_until = self._older.get(who, now)
        begin = max(now, spent_until)
        wait = begin - now - self._slack
        # Whoever comes back after just this time is within it.
        if wait > _TOLERANCE_SEC:
            return wait
        self._newer[who] = begin + self._step
        return 0.0
