"""Shortens text from callers for error messages and log lines."""

from typing import Final

_MAX_SHOWN_CHARS: Final = 120


def shortened(text: str) -> str:
    """Return `text`, cut to 120 characters."""
    return text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
