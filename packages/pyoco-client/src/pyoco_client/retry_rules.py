"""Decides whether and when a request is repeated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

from pyoco_client.errors import GatewayUnreachableError, PyocoApiError, PyocoError
from pyoco_client.execution_errors import SeqNotReachedError

TRANSIENT_STATUSES: Final = frozenset({408, 429, 502, 503, 504})

# Maximum pause that a `Retry-After` header can cause.
_MAX_RETRY_AFTER_SEC: Final = 3600.0


class Repeat(Enum):
    """When a failed request may be repeated."""

    # The request only reads, or a second one has no further effect.
    ALWAYS = auto()
    # A second request would have a second effect: repeat it only if the first was never sent.
    IF_UNSENT = auto()


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses between repetitions: they start at `first_sec` and double up to `longest_sec`."""

    first_sec: float = 0.1
    longest_sec: float = 2.0

    def pause(self, failures: int, jitter: float) -> float:
        """Return the pause after this many failures.

        It is multiplied by a factor from 0.5 (`jitter` 0) to 1 (`jitter` 1). The factor keeps
        clients that failed at the same time from repeating at the same time.
        """
        grown = self.first_sec * 2.0 ** min(failures - 1, 30)
        return min(grown, self.longest_sec) * (0.5 + jitter / 2)


def is_passing(error: PyocoError) -> bool:
    """Return whether the failure may pass: there was no answer, or the server was not ready."""
    if isinstance(error, GatewayUnreachableError):
        return not error.is_lasting
    return error.status in TRANSIENT_STATUSES


def may_repeat(error: PyocoError, repeat: Repeat) -> bool:
    """Return whether a request may be repeated after this error."""
    # The gateway has waited for the event as long as the request asked.
    if not is_passing(error) or isinstance(error, SeqNotReachedError):
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
    """Return the pause before the next repetition, or None if there must be none.

    There is none if `Retry-After` is longer than the time that is left.
    """
    if not may_repeat(error, repeat):
        return None
    asked = error.retry_after_sec if isinstance(error, PyocoApiError) else None
    pause = max(backoff.pause(failures, jitter), asked or 0.0)
    return pause if pause < left_sec else None


def retry_after_sec(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it is missing or invalid."""
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
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_SEC)
