"""Makes untrusted text safe for a terminal, and measures and cuts it by columns."""

import re
import unicodedata
from typing import Final

# Characters that control a terminal: C0 and C1 controls (\x9b starts a sequence like ESC [), line
# separators, changes of the writing direction, and surrogates.
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CONTROL_EXCEPT_LINES: Final = re.compile(
    _CONTROL.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f")
)

_ELLIPSIS: Final = ".."


def safe_text(text: str) -> str:
    """Return `text` with control characters escaped, except line feeds and tabs."""
    return _CONTROL_EXCEPT_LINES.sub(_escaped, text)


def safe_line(text: str) -> str:
    """Return `text` as one line, with all control characters escaped."""
    return _CONTROL.sub(_escaped, text)


def columns_of(text: str) -> int:
    """Return the width of a line: two columns for a wide character, none for a combining mark."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def clipped(text: str, columns: int) -> str:
    """Return a line cut to `columns`; two dots at the end mark the cut."""
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
    """Return a line cut or padded to exactly `columns`."""
    fitting = clipped(text, columns)
    return fitting + " " * (columns - columns_of(fitting))


def wrapped(text: str, columns: int | None) -> list[str]:
    """Return a line broken between words into lines of at most `columns`; words stay whole."""
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
    """Return `text` with characters escaped that `encoding` does not have; None has all."""
    if encoding is None:
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _columns(character: str) -> int:
    # Combining marks (Japanese ones too), joiners and format characters take no column.
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
