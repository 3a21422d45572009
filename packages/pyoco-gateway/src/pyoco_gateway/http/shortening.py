"""Text of a caller's making, cut to what anybody wants to read."""

from typing import Final

_MAX_SHOWN_CHARS: Final = 120


def shortened(text: str) -> str:
    """Return `text`, cut where it is too long for a message or a log line."""
    return text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
