"""Parts of the rows of a live view: symbols, colours, the progress row, and the choice of rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import click

from pyoco_client.cli.display.safe_text import clipped, safe_line
from pyoco_client.cli.display.status_colours import STATUS_COLOURS

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER: Final = "|/-\\"

_SYMBOLS: Final = {
    "SUCCEEDED": "✓",
    "COMPLETED": "✓",
    "FAILED": "✗",
    "CANCELLED": "!",
    "CANCELED": "!",
    "PENDING": "-",
    "IDLE": "-",
    "SKIPPED": "-",
    "READY": ">",
    "WAITING": "?",
}
_ASCII_SYMBOLS: Final = {**_SYMBOLS, "SUCCEEDED": "+", "COMPLETED": "+", "FAILED": "x"}
_WITH_SPINNER: Final = frozenset({"RUNNING", "CANCELLING", "ACTIVE"})
_DIM: Final = frozenset({"PENDING", "IDLE", "SKIPPED"})
_MAX_BAR_COLUMNS: Final = 40


class _WithState(Protocol):
    @property
    def state(self) -> str: ...


Part = TypeVar("Part", bound=_WithState)


@dataclass(frozen=True, slots=True)
class Style:
    """The size of the terminal, and whether it shows colours and Unicode."""

    columns: int
    lines: int
    colour: bool
    unicode: bool

    def painted(self, text: str, state: str) -> str:
        """Return `text` in the colour of a state, if colours are on."""
        if not self.colour:
            return text
        if state in _DIM:
            return click.style(text, dim=True)
        colour = STATUS_COLOURS.get(state)
        return click.style(text, fg=colour) if colour else text

    def symbol(self, state: str, tick: int) -> str:
        """Return the one-character symbol of a state, a spinner for one in progress."""
        if state in _WITH_SPINNER:
            spinner = SPINNER if self.unicode else ASCII_SPINNER
            return spinner[tick % len(spinner)]
        return (_SYMBOLS if self.unicode else _ASCII_SYMBOLS).get(state, "?")


def progress_row(done: int, total: int, width: int) -> str:
    """Return the row with a bar and the number of parts that have ended."""
    count = f" {done}/{total}"
    length = min(width - len(count) - 4, _MAX_BAR_COLUMNS)
    if length < 4:
        return clipped(count.strip(), width)
    filled = length * done // total
    return f"  [{'=' * filled}{' ' * (length - filled)}]{count}"


def selected(
    parts: Sequence[Part], room: int, ranks: Sequence[str]
) -> tuple[list[Part], Sequence[Part]]:
    """Return the parts that fit into `room` rows, in their order, and the remaining ones.

    Parts in the first of the states in `ranks` are preferred. If there are remaining parts, one row
    stays free for their summary.
    """
    if len(parts) <= room:
        return list(parts), ()
    ranked = sorted(range(len(parts)), key=lambda at: (_rank(parts[at].state, ranks), at))
    shown = set(ranked[: max(room - 1, 0)])
    return (
        [part for at, part in enumerate(parts) if at in shown],
        [part for at, part in enumerate(parts) if at not in shown],
    )


def summary_row(others: Sequence[_WithState], width: int, ranks: Sequence[str]) -> str:
    """Return the row that counts the parts without a row by state."""
    counts = Counter(part.state for part in others)
    by_rank = sorted(counts.items(), key=lambda item: _rank(item[0], ranks))
    listed = ", ".join(f"{count} {state}" for state, count in by_rank)
    return clipped(f"  {len(others)} more: {safe_line(listed)}", width)


def _rank(state: str, ranks: Sequence[str]) -> int:
    return ranks.index(state) if state in ranks else len(ranks)
