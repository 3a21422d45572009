"""Times as an operator writes them."""

import re
from datetime import UTC, datetime
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# Longer is a slip, and the calendar of the library ends at some point.
_MAX_SEC: Final = 100 * 365 * 86_400


def seconds_in(text: str) -> float:
    """Return the length of a time such as `90m`, `24h` or `30d`; raise ValueError for another."""
    parts = re.fullmatch(r"([0-9]{1,10})([smhdw])", text)
    if parts is None:
        raise ValueError("must be a number with s, m, h, d or w behind it, such as 24h")
    seconds = int(parts[1]) * _SECONDS[parts[2]]
    if seconds > _MAX_SEC:
        raise ValueError("must not be longer than 100 years")
    return float(seconds)


def moment_in(text: str, *, now: float) -> float:
    """Return the moment that `30d` from now or `2027-01-31T00:00:00Z` names, in unix seconds.

    Raises ValueError for any other text, and for a moment that is not ahead.
    """
    if re.fullmatch(r"[0-9]+[a-z]", text):
        ahead = seconds_in(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError("must be a time from now such as 30d, or such as 2027-01-31T00:00:00Z")
        ahead = moment.timestamp() - now
    if not 0 < ahead <= _MAX_SEC:
        raise ValueError("must be ahead, and not further than 100 years")
    return now + ahead


def shown_moment(at: float) -> str:
    """Return a moment as it is shown: in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
