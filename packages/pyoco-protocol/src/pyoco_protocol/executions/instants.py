"""Times of executions: RFC 3339 in UTC with milliseconds, such as `2026-11-18T03:15:27.123Z`.

All have the same length, so texts compare like the times that they name.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"

_LAST_MS: Final = 253_402_300_799_999
_INSTANT: Final = re.compile(INSTANT_PATTERN, re.ASCII)

Instant = Annotated[str, StringConstraints(pattern=INSTANT_PATTERN)]


def _existing(at: Instant) -> Instant:
    datetime.fromisoformat(at)
    return at


# A time that the calendar has.
Time = Annotated[Instant, AfterValidator(_existing)]


def instant(milliseconds: int) -> str:
    """Return the text of a time in milliseconds since the epoch, at most the end of year 9999."""
    moment = _EPOCH + timedelta(milliseconds=min(milliseconds, _LAST_MS))
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def milliseconds_of(at: str) -> int:
    """Return the milliseconds since the epoch of a time; raise ValueError for another text."""
    if _INSTANT.fullmatch(at) is None:
        raise ValueError(f"not a time: {at[:40]!r}")
    return (datetime.fromisoformat(at) - _EPOCH) // timedelta(milliseconds=1)


def later(at: str, seconds: float) -> str:
    """Return the time `seconds` after `at`, rounded up to a millisecond."""
    # Without the rounding to microseconds, 134217.727 s would be 134217728 ms.
    return instant(milliseconds_of(at) + math.ceil(round(seconds * 1000, 3)))
