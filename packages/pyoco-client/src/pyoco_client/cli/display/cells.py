"""The texts of table cells."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pyoco_client.cli.display.tables import Record

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def duration(seconds: float) -> str:
    """Return a duration in its largest units: `0.4s`, `42s`, `3m07s`, `2h05m`, `4d03h`."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def moment(timestamp: float) -> str:
    """Return a unix time as local time with its UTC offset."""
    return datetime.fromtimestamp(timestamp, UTC).astimezone().isoformat(" ", "seconds")


def text_cell(field: str) -> Callable[[Record], str]:
    """Return the cell with the text of a field."""
    return lambda record: shown(record.get(field))


def shown(value: object) -> str:
    """Return the text of a value; None is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ",".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def moment_cell(field: str) -> Callable[[Record], str]:
    """Return the cell with a field in unix seconds as local time."""
    return lambda record: if_known(record.get(field), moment)


def age_cell(field: str) -> Callable[[Record], str]:
    """Return the cell with the time since a field in unix seconds."""
    return lambda record: if_known(record.get(field), lambda at: duration(time.time() - at))


def if_known(value: Any, text_of: Callable[[float], str]) -> str:
    """Return the text of a number; a value that is no number is empty."""
    return text_of(value) if isinstance(value, int | float) else ""


def seconds_of(instant: Any) -> float | None:
    """Return a time of an execution (RFC 3339) as unix seconds; None for another value."""
    try:
        return datetime.fromisoformat(instant).timestamp()
    except (TypeError, ValueError):
        return None


def instant_cell(field: str) -> Callable[[Record], str]:
    """Return the cell with a time of an execution as local time."""
    return lambda record: if_known(seconds_of(record.get(field)), moment)


def instant_age_cell(field: str) -> Callable[[Record], str]:
    """Return the cell with the time since a time of an execution."""
    return lambda record: if_known(
        seconds_of(record.get(field)), lambda at: duration(time.time() - at)
    )
