"""Token buckets: a burst at once, and a steady rate in the long run."""

import time
from collections.abc import Callable, Hashable
from typing import Final

# Maximum number of buckets in one generation; two generations are kept.
MAX_KEPT: Final = 10_000
# Rate per address of requests without a valid key. Above it, each response is delayed, so that
# one connection of an unauthenticated caller takes at most a hundredth of the gateway's time.
UNAUTHENTICATED_PER_SEC: Final = 50.0
UNAUTHENTICATED_BURST: Final = 100
UNAUTHENTICATED_DELAY_SEC: Final = 0.01
# Rate per address of log lines about refused requests: any caller can cause them.
_LOG_LINES_PER_SEC: Final = 1.0
_LOG_LINES_BURST: Final = 60
# Rounding error of many added steps.
_TOLERANCE_SEC: Final = 1e-6


class RateLimiter:
    """A token bucket for each key.

    A bucket is one number: the time until which its tokens are spent. An unused bucket fills up
    and then equals a new one, so a generation of buckets is dropped once all of them are full. It
    is also dropped when it holds too many buckets: a caller with ever new keys gets new bursts,
    but the memory stays bounded.
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
        """Return the number of buckets kept."""
        return len(self._newer) + len(self._older)

    def wait_for(self, key: Hashable) -> float:
        """Take a token of `key` and return 0.0, or return the seconds until there is one.

        A refusal takes no token: a caller that returns after that time succeeds.
        """
        now = self._clock()
        if now >= self._turn_at or len(self._newer) >= self._max_kept:
            self._older, self._newer = self._newer, {}
            self._turn_at = now + self._lifetime
        spent_until = self._newer.get(key)
        if spent_until is None:
            spent_until = self._older.get(key, now)
        begin = max(now, spent_until)
        wait = begin - now - self._slack
        if wait > _TOLERANCE_SEC:
            return wait
        self._newer[key] = begin + self._step
        return 0.0


def refusal_log_limiter() -> RateLimiter:
    """Return a rate limit for log lines about requests that were refused."""
    return RateLimiter(_LOG_LINES_PER_SEC, _LOG_LINES_BURST)
