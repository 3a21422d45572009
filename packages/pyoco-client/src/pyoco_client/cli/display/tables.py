"""Text tables with columns aligned by display width, also for wide characters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyoco_client.cli.display.safe_text import clipped, columns_of, padded, safe_line

_GAP: Final = "  "
_SMALLEST: Final = 10

Record = Mapping[str, Any]
# Takes the title and the text of a cell; returns the text with or without colours.
CellStyle = Callable[[str, str], str]


def _plain(_title: str, text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Column:
    """A title, and the function that makes the text of a cell from a record.

    To fit the terminal, columns with `shrinks` are cut. Columns with `may_go` are left out if they
    are empty or if there is no room. Other columns, such as ids, are never cut.
    """

    title: str
    cell: Callable[[Record], str]
    shrinks: bool = False
    may_go: bool = False


def table(
    records: Iterable[Record],
    columns: Sequence[Column],
    *,
    width: int | None = None,
    styled: CellStyle = _plain,
) -> list[str]:
    """Return the lines of a table, its titles first.

    `width` is the width of the terminal; with None nothing is cut. `styled` may add colours to a
    cell; they take no columns.
    """
    rows = [[_one_line(column.cell(record)) for column in columns] for record in records]
    widths = [
        max([columns_of(column.title), *(columns_of(row[place]) for row in rows)])
        for place, column in enumerate(columns)
    ]
    if width is not None:
        kept = _kept(columns, rows, widths, width)
        columns = [columns[place] for place in kept]
        rows = [[row[place] for place in kept] for row in rows]
        widths = _fitting([widths[place] for place in kept], columns, width)
    lines = [_line([column.title for column in columns], widths)]
    for row in rows:
        cut = [clipped(text, room) for text, room in zip(row, widths, strict=True)]
        shown = [styled(column.title, text) for column, text in zip(columns, cut, strict=True)]
        lines.append(_line(cut, widths, shown))
    return lines


def pairs(record: Record, columns: Sequence[Column], *, styled: CellStyle = _plain) -> list[str]:
    """Return one line of title and text for each column of a record that is not empty."""
    cells = [(column.title, _one_line(column.cell(record))) for column in columns]
    shown = [(title, styled(title, text)) for title, text in cells if text]
    room = max((columns_of(title) for title, _ in shown), default=0)
    return [f"{padded(title, room)}{_GAP}{text}" for title, text in shown]


def _kept(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], width: int
) -> list[int]:
    kept = [
        place
        for place, column in enumerate(columns)
        if not column.may_go or not rows or any(row[place] for row in rows)
    ]

    def room_needed() -> int:
        return _taken([_least(columns[place], widths[place]) for place in kept])

    for place in reversed(kept.copy()):
        if room_needed() <= width:
            break
        if columns[place].may_go:
            kept.remove(place)
    return kept


def _least(column: Column, width: int) -> int:
    return min(width, max(_SMALLEST, columns_of(column.title))) if column.shrinks else width


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitting(widths: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    fitted = list(widths)
    too_much = _taken(widths) - width
    # The last columns are the least important ones and shrink first.
    for place in reversed(range(len(columns))):
        if too_much <= 0:
            break
        if columns[place].shrinks:
            spared = min(too_much, fitted[place] - _least(columns[place], fitted[place]))
            fitted[place] -= spared
            too_much -= spared
    return fitted


def _line(cells: Sequence[str], widths: Sequence[int], shown: Sequence[str] | None = None) -> str:
    filled = [
        text + " " * (width - columns_of(cell))
        for cell, text, width in zip(cells, shown or cells, widths, strict=True)
    ]
    return _GAP.join(filled).rstrip()


def _one_line(text: str) -> str:
    return safe_line(" ".join(text.split()))
