"""A terminal emulator for tests: rows of text, cursor, modes.

It implements the few escape sequences that our commands use and raises on all others, so that a
test cannot pass with a screen that would look different on a real terminal.
"""

import codecs
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
_INCOMPLETE: Final = re.compile(r"\x1b(\[\??[0-9;]*)?$")
# The cell in the second column of a wide character.
_WIDE_REST: Final = ""


@dataclass
class _Row:
    cells: list[str] = field(default_factory=list)
    # Whether the text wraps into the next row.
    wraps_on: bool = False

    def text(self) -> str:
        return "".join(self.cells).rstrip()


class UnknownSequenceError(AssertionError):
    """An escape sequence or control character that this screen does not implement."""


class Screen:
    """A terminal of `columns` by `lines` that interprets the bytes written to it.

    When the width changes, `reflows` decides what happens to long rows: text is wrapped again, as
    in most terminals, or rows are cut, as in xterm.
    """

    def __init__(self, columns: int, lines: int, *, reflows: bool = True) -> None:
        self.columns, self.lines = columns, lines
        self.is_cursor_visible = True
        self.wraps = True
        self.attributes = ""
        self.painted: list[tuple[str, str]] = []
        self._reflows = reflows
        self._rows = [_Row()]
        self._top = 0
        self._row, self._column = 0, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and line of the cursor on the screen, counted from 0."""
        return self._column, self._row - self._top

    @property
    def rows(self) -> list[str]:
        """The rows on the screen without trailing spaces and without empty rows at the end."""
        return _without_empty_end([row.text() for row in self._rows[self._top :]])

    @property
    def history(self) -> list[str]:
        """All rows, including those that scrolled off the top."""
        return _without_empty_end([row.text() for row in self._rows])

    def colours_of(self, text: str) -> set[str]:
        """Return the colours (SGR parameters, empty for none) in which `text` was written."""
        written = "".join(character for character, _ in self.painted)
        return {
            attributes
            for found in re.finditer(re.escape(text), written)
            for _, attributes in self.painted[found.start() : found.end()]
        }

    def feed(self, data: bytes) -> None:
        """Interpret written bytes; an escape sequence may be split between two calls."""
        text = self._rest + self._decoder.decode(data)
        if incomplete := _INCOMPLETE.search(text):
            self._rest, text = text[incomplete.start() :], text[: incomplete.start()]
        else:
            self._rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    raise UnknownSequenceError(repr(text[at : at + 10]))
                self._apply_sequence(*found.groups())
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        if columns != self.columns:
            if self._reflows:
                self._reflow(columns)
            else:
                for row in self._rows[self._top :]:
                    if row.cells[columns : columns + 1] == [_WIDE_REST]:
                        row.cells[columns - 1] = " "
                    del row.cells[columns:]
        self.columns, self.lines = columns, lines
        self._column = min(self._column, columns - 1)
        self._top = max(0, len(self._rows) - lines)
        self._row = max(self._row, self._top)

    def _reflow(self, columns: int) -> None:
        rows: list[_Row] = []
        cursor_row = 0
        is_new_line = True
        for number, row in enumerate(self._rows):
            if is_new_line:
                rows.append(_Row())
            if number == self._row:
                cursor_row = len(rows) - 1
            filled = row.cells if row.wraps_on else _trimmed(row.cells)
            for at, cell in enumerate(filled):
                width = 2 if filled[at + 1 : at + 2] == [_WIDE_REST] else 1
                if cell != _WIDE_REST and len(rows[-1].cells) + width > columns:
                    rows[-1].wraps_on = True
                    rows.append(_Row())
                rows[-1].cells.append(cell)
            is_new_line = not row.wraps_on
        self._rows, self._row = rows, cursor_row

    def _apply_sequence(self, private: str, parameters: str, final: str) -> None:
        numbers = [int(number) if number else 0 for number in parameters.split(";")]
        amount = max(numbers[0], 1)
        if private:
            if final not in "hl" or numbers not in ([25], [7]):
                raise UnknownSequenceError(f"CSI ? {parameters} {final}")
            if numbers == [25]:
                self.is_cursor_visible = final == "h"
            else:
                self.wraps = final == "h"
        elif final == "A":
            self._row = max(self._row - amount, self._top)
        elif final == "m":
            self.attributes = "" if numbers == [0] else parameters
        elif final == "K" and numbers == [0]:
            del self._rows[self._row].cells[self._column :]
        elif final == "J" and numbers == [0]:
            del self._rows[self._row].cells[self._column :]
            del self._rows[self._row + 1 :]
        else:
            raise UnknownSequenceError(f"CSI {parameters} {final}")

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._next_row()
        elif ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0:
            raise UnknownSequenceError(repr(character))
        else:
            self._write(character)

    def _write(self, character: str) -> None:
        if unicodedata.combining(character):
            return
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self._column + width > self.columns:
            if self.wraps:
                self._rows[self._row].wraps_on = True
                self._next_row()
                self._column = 0
            else:
                self._column = self.columns - width
        self.painted.append((character, self.attributes))
        cells = self._rows[self._row].cells
        cells.extend(" " * (self._column + width - len(cells)))
        cells[self._column : self._column + width] = [character, _WIDE_REST][:width]
        self._column += width

    def _next_row(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(_Row())
        self._top = max(self._top, self._row - self.lines + 1)


def _trimmed(cells: list[str]) -> list[str]:
    end = len(cells)
    while end and cells[end - 1] == " ":
        end -= 1
    return cells[:end]


def _without_empty_end(rows: list[str]) -> list[str]:
    while rows and not rows[-1]:
        rows.pop()
    return rows
