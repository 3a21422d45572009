"""Exceptions of user code as text of bounded length."""

import traceback
from typing import Final

MAX_ERROR_CHARS: Final = 4_000
MAX_TRACEBACK_CHARS: Final = 16_000


def error_text(error: BaseException) -> str:
    """Return the class and the message of an exception."""
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001 - `__str__` is user code
        message = f"<no text: {type(broken).__name__}>"
    return limited(f"{type(error).__name__}: {message}", MAX_ERROR_CHARS) or type(error).__name__


def traceback_text(error: BaseException) -> str | None:
    """Return the traceback of an exception; None if it cannot be formatted."""
    try:
        lines = traceback.format_exception(error)
    except BaseException:  # noqa: BLE001 - formatting calls `__str__`, which is user code
        return None
    return limited("".join(lines), MAX_TRACEBACK_CHARS)


def limited(text: str | None, max_chars: int) -> str | None:
    """Return at most the last `max_chars` characters, which matter most in a traceback."""
    if text is None:
        return None
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return clean if len(clean) <= max_chars else "…" + clean[-max_chars:]
