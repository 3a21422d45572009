"""Whether a request is sent again, and when."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

from pyoco_client.errors import GatewayUnreachableError, PyocoApiError, PyocoError

GONE_FOR_A_MOMENT: Final = frozenset({408, 429, 502, 503, 504})

# Nobody is made to wait longer than this by a header.
_LONGEST_RETRY_AFTER_SEC: Final = 3600.0


class Repeat(Enum):
    """What may be done with a request that got no good answer."""

    # It reads, or doing it twice is doing it once.
    ALWAYS = auto()
    # Doing it twice would be two things: only what surely never left may be sent again.
    IF_UNSENT = auto()


@dataclass(frozen=True, slots=True)
class Backoff:
    """How pauses grow: from the first, doubled each time, to the longest."""

    first_sec: float = 0.1
    longest_sec: float = 2.0

    def pause(self, failures: int, jitter: float) -> float:
        """Return the pause after so many failures; `jitter` (0 to 1) spreads it over its half.

        Those who fail together must not come back together.
        """
        grown = self.first_sec * 2.0 ** min(failures - 1, 30)
        return min(grown, self.longest_sec) * (0.5 + jitter / 2)


def is_passing(error: PyocoError) -> bool:
    """Whether the failure may be over soon: no answer, or one of a server that is not ready."""
    if isinstance(error, GatewayUnreachableError):
        return not error.is_lasting
    return error.status in GONE_FOR_A_MOMENT


def may_repeat(error: PyocoError, repeat: Repeat) -> bool:
    """Whether a request that failed so may be sent again."""
    if not is_passing(error):
        return False
    if repeat is Repeat.ALWAYS:
        return True
    return isinstance(error, GatewayUnreachableError) and not error.may_have_arrived


def pause_before_repeat(
    error: PyocoError,
    repeat: Repeat,
    *,
    failures: int,
    left_sec: float,
    jitter: float,
    backoff: Backoff,
) -> float | None:
    """Return how long to wait before sending again; None if that is not to be.

    A server that wants to be asked later than the caller can wait is not asked again.
    """
    if not may_repeat(error, repeat):
        return None
    asked = error.retry_after_sec if isinstance(error, PyocoApiError) else None
    pause = max(backoff.pause(failures, jitter), asked or 0.0)
    return pause if pause < left_sec else None


def retry_after_sec(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return what `Retry-After` asks for, in seconds; None where it says nothing of use."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        seconds = (at - (now or datetime.now(UTC))).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_SEC)
