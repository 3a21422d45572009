"""What a terminal shows after what was written to it: rows of text, cursor, modes.

It knows the few sequences that our own commands use, and refuses all others, so that nothing is
asserted about a screen that would look different on a real terminal.
"""

import codecs
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
_BEGUN: Final = re.compile(r"\x1b(\[\??[0-9;]*)?$")
# Fills the second column of a wide character.
_SHADOW: Final = ""


@dataclass
class _Row:
    cells: list[str] = field(default_factory=list)
    # Whether the text goes on in the next row because this one was full.
    goes_on: bool = False

    def text(self) -> str:
        return "".join(self.cells).rstrip()


class UnknownSequenceError(AssertionError):
    """A sequence that this screen does not know, or a control character that has no place here."""


class Screen:
    """A terminal of so many columns and lines, fed with bytes.

    With `reflows`, text that wrapped or no longer fits moves between rows when the width changes,
    as in most terminals of today; without, rows are cut, as in xterm.
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
        """Column and line of the cursor on the screen, from 0."""
        return self._column, self._row - self._top

    @property
    def rows(self) -> list[str]:
        """The rows on the screen without trailing space, down to the last that holds text."""
        return _without_empty_end([row.text() for row in self._rows[self._top :]])

    @property
    def history(self) -> list[str]:
        """All rows, with those that have left the screen at its top."""
        return _without_empty_end([row.text() for row in self._rows])

    def colours_of(self, text: str) -> set[str]:
        """Return in which colours (SGR parameters, empty for none) `text` was written."""
        written = "".join(character for character, _ in self.painted)
        return {
            attributes
            for found in re.finditer(re.escape(text), written)
            for _, attributes in self.painted[found.start() : found.end()]
        }

    def feed(self, data: bytes) -> None:
        """Take in what was written; a sequence may come in pieces."""
        text = self._rest + self._decoder.decode(data)
        if begun := _BEGUN.search(text):
            self._rest, text = text[begun.start() :], text[: begun.start()]
        else:
            self._rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    raise UnknownSequenceError(repr(text[at : at + 10]))
                self._obey(*found.groups())
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
                    if row.cells[columns : columns + 1] == [_SHADOW]:
                        row.cells[columns - 1] = " "
                    del row.cells[columns:]
        self.columns, self.lines = columns, lines
        self._column = min(self._column, columns - 1)
        self._top = max(0, len(self._rows) - lines)
        self._row = max(self._row, self._top)

    def _reflow(self, columns: int) -> None:
        rows: list[_Row] = []
        cursor_row = 0
        begins = True
        for number, row in enumerate(self._rows):
            if begins:
                rows.append(_Row())
            if number == self._row:
                cursor_row = len(rows) - 1
            filled = row.cells if row.goes_on else _trimmed(row.cells)
            for at, cell in enumerate(filled):
                width = 2 if filled[at + 1 : at + 2] == [_SHADOW] else 1
                if cell != _SHADOW and len(rows[-1].cells) + width > columns:
                    rows[-1].goes_on = True
                    rows.append(_Row())
                rows[-1].cells.append(cell)
            begins = not row.goes_on
        self._rows, self._row = rows, cursor_row

    def _obey(self, private: str, parameters: str, final: str) -> None:
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
                self._rows[self._row].goes_on = True
                self._next_row()
                self._column = 0
            else:
                self._column = self.columns - width
        self.painted.append((character, self.attributes))
        cells = self._rows[self._row].cells
        cells.extend(" " * (self._column + width - len(cells)))
        cells[self._column : self._column + width] = [character, _SHADOW][:width]
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
