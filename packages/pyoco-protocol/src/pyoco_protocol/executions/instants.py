"""Times of executions: RFC 3339 in UTC with milliseconds, such as `2026-11-18T03:15:27.123Z`.

All have the same length, so texts compare like the times that they name.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import StringConstraints

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"

Instant = Annotated[str, StringConstraints(pattern=INSTANT_PATTERN)]


def instant(milliseconds: int) -> str:
    """Return the text of a time in milliseconds since the epoch."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def milliseconds_of(at: str) -> int:
    """Return the milliseconds since the epoch of a time; raise ValueError for another text."""
    moment = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def later(at: str, seconds: float) -> str:
    """Return the time `seconds` after `at`, rounded up to a millisecond."""
    return instant(milliseconds_of(at) - int(-seconds * 1000 // 1))
