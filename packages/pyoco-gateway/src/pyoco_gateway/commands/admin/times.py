"""Parses durations and times given as command-line options."""

import re
from datetime import UTC, datetime
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# A longer duration is a mistake, and `datetime` ends at the year 9999.
_MAX_SEC: Final = 100 * 365 * 86_400


def seconds_in(text: str) -> float:
    """Return the seconds in a duration such as `90m`, `24h` or `30d`; raise ValueError."""
    parts = re.fullmatch(r"([0-9]{1,10})([smhdw])", text)
    if parts is None:
        raise ValueError("must be a number followed by s, m, h, d or w, such as 24h")
    seconds = int(parts[1]) * _SECONDS[parts[2]]
    if seconds > _MAX_SEC:
        raise ValueError("must not be longer than 100 years")
    return float(seconds)


def moment_in(text: str, *, now: float) -> float:
    """Return the unix time of `30d` (from now) or `2027-01-31T00:00:00Z`.

    Raises ValueError for any other text, and for a time in the past.
    """
    if re.fullmatch(r"[0-9]+[a-z]", text):
        ahead = seconds_in(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError(
                "must be a duration such as 30d or a time such as 2027-01-31T00:00:00Z"
            )
        ahead = moment.timestamp() - now
    if not 0 < ahead <= _MAX_SEC:
        raise ValueError("must be in the future, and within 100 years")
    return now + ahead


def shown_moment(at: float) -> str:
    """Return a unix time as text, in UTC and to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
