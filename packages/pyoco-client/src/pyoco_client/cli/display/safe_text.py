"""Text from elsewhere as it may be shown on a terminal, and how many columns it takes there."""

import re
import unicodedata
from typing import Final

# What could steer a terminal: controls, the C1 block (where \x9b begins a sequence like ESC [),
# what ends a line, what turns the direction of writing round, and halves of characters.
_STEERING: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_STEERING_BUT_LINES: Final = re.compile(
    _STEERING.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f")
)

_ELLIPSIS: Final = ".."


def safe_text(text: str) -> str:
    """Return `text` with all that could steer a terminal escaped; lines and tabs stay."""
    return _STEERING_BUT_LINES.sub(_escaped, text)


def safe_line(text: str) -> str:
    """Return `text` as one line: what could steer a terminal, line ends and tabs are escaped."""
    return _STEERING.sub(_escaped, text)


def columns_of(text: str) -> int:
    """Return how many columns a line takes: two for each wide character, none for marks."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def clipped(text: str, columns: int) -> str:
    """Return as much of a line as fits into `columns`; two dots say that there was more."""
    if columns_of(text) <= columns:
        return text
    dots = _ELLIPSIS[: max(0, columns)]
    room = columns - len(dots)
    kept = []
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + dots


def padded(text: str, columns: int) -> str:
    """Return a line clipped or filled up to exactly `columns`."""
    fitting = clipped(text, columns)
    return fitting + " " * (columns - columns_of(fitting))


def wrapped(text: str, columns: int | None) -> list[str]:
    """Return a line as several of at most `columns`, cut between words; a long word stays whole."""
    if columns is None:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and columns_of(longer) > columns:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def encodable(text: str, encoding: str | None) -> str:
    """Return `text` with what `encoding` does not know escaped; a stream without one takes all."""
    if encoding is None:
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _columns(character: str) -> int:
    # Marks stand on what is before them, the wide ones of Japanese too; so do joiners and other
    # signs without a shape.
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
