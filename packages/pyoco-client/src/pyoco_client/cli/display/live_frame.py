"""The rows of the live view of a run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from pyoco_client.cli.display.displayed_run import DisplayedRun, DisplayedTask
from pyoco_client.cli.display.layouts import duration
from pyoco_client.cli.display.safe_text import clipped, columns_of, padded, safe_line
from pyoco_client.cli.display.status_colours import STATUS_COLOURS

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER: Final = "|/-\\"

_SYMBOLS: Final = {
    "SUCCEEDED": "✓",
    "COMPLETED": "✓",
    "FAILED": "✗",
    "CANCELLED": "!",
    "PENDING": "-",
}
_ASCII_SYMBOLS: Final = {**_SYMBOLS, "SUCCEEDED": "+", "COMPLETED": "+", "FAILED": "x"}
_WITH_SPINNER: Final = frozenset({"RUNNING", "CANCELLING"})
_ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
# If the screen is too small for all tasks, tasks in the first of these states are shown first.
_TASK_RANKS: Final = ("FAILED", "RUNNING", "CANCELLED", "PENDING", "SUCCEEDED")

_STATE_COLUMNS: Final = 9
_DURATION_COLUMNS: Final = 6
# The width of a task's row without the name of the task.
_TASK_ROW_COLUMNS: Final = len("  s ") + 1 + _STATE_COLUMNS + 1 + _DURATION_COLUMNS
_MIN_NAME_COLUMNS: Final = 4
_PREFERRED_NAME_COLUMNS: Final = 16
_MAX_BAR_COLUMNS: Final = 40


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
        if state == "PENDING":
            return click.style(text, dim=True)
        colour = STATUS_COLOURS.get(state)
        return click.style(text, fg=colour) if colour else text

    def symbol(self, state: str, tick: int) -> str:
        """Return the one-character symbol of a state, a spinner for a run or task in progress."""
        if state in _WITH_SPINNER:
            spinner = SPINNER if self.unicode else ASCII_SPINNER
            return spinner[tick % len(spinner)]
        return (_SYMBOLS if self.unicode else _ASCII_SYMBOLS).get(state, "?")


def frame(run: DisplayedRun, *, now: float, tick: int, style: Style) -> list[str]:
    """Return the rows of the live view; they fit the size in `style`."""
    # Terminals differ in what they do after the last column, so it stays empty.
    width = max(style.columns - 1, 1)
    # The last line is for the cursor.
    height = max(style.lines - 1, 1)
    rows = [_headline(run, now=now, tick=tick, style=style, width=width)]
    # The run id is wrapped and never shortened: after Ctrl-C the user needs it to find the run.
    room = max(width - 2, 1)
    rows += [f"  {run.run_id[at : at + room]}" for at in range(0, len(run.run_id), room)]
    if not run.tasks:
        if run.status == "PENDING":
            where = f" with tag {safe_line(run.tag)}" if run.tag else ""
            rows.append(clipped(f"  waits for a worker{where}", width))
        return rows[:height]
    footer = [_bar(run.tasks, width)] if len(run.tasks) > 1 else []
    free = height - len(rows) - len(footer)
    if free < 1:
        return [*rows[: height - len(footer)], *footer][:height]
    shown, others = _selected(run.tasks, free)
    longest = max((columns_of(safe_line(task.name)) for task in shown), default=0)
    room = width - _TASK_ROW_COLUMNS
    for task in shown:
        if room < _MIN_NAME_COLUMNS:
            # Too narrow for columns: the row is the symbol of the state and the name.
            symbol = style.painted(style.symbol(task.state, tick), task.state)
            rows.append(f"{symbol} {clipped(safe_line(task.name), max(width - 2, 0))}")
        else:
            rows.append(_task_row(task, min(longest, room), now=now, tick=tick, style=style))
    if others:
        counts = Counter(task.state for task in others)
        ranked = sorted(counts.items(), key=lambda item: _rank(item[0]))
        listed = ", ".join(f"{count} {state}" for state, count in ranked)
        rows.append(clipped(f"  {len(others)} more: {safe_line(listed)}", width))
    return rows + footer


def _headline(run: DisplayedRun, *, now: float, tick: int, style: Style, width: int) -> str:
    status = safe_line(run.status)
    elapsed = None if run.began_at is None else (run.ended_at or now) - run.began_at
    facts = [status, *([duration(elapsed)] if elapsed is not None else [])]
    if run.attempt > 1:
        facts.append(f"attempt {run.attempt}")
    # A narrow row shortens the name first, down to a minimum, then drops the last facts.
    name = safe_line(run.flow_name)
    least = min(columns_of(name), _PREFERRED_NAME_COLUMNS)
    while len(facts) > 1 and width - 2 - columns_of("  ".join(["", *facts])) < least:
        facts.pop()
        least = min(least, _MIN_NAME_COLUMNS)
    tail = "".join(f"  {fact}" for fact in facts)
    name = clipped(name, max(width - 2 - columns_of(tail), 1))
    symbol = style.symbol(run.status, tick)
    plain = f"{symbol} {name}{tail}"
    if columns_of(plain) > width:
        return clipped(plain, width)
    painted_tail = tail.replace(status, style.painted(status, run.status), 1)
    return f"{style.painted(symbol, run.status)} {name}{painted_tail}"


def _task_row(task: DisplayedTask, names: int, *, now: float, tick: int, style: Style) -> str:
    if task.duration_sec is not None:
        took = duration(task.duration_sec)
    elif task.state == "RUNNING" and task.started_at is not None:
        took = duration(now - task.started_at)
    else:
        took = ""
    symbol = style.painted(style.symbol(task.state, tick), task.state)
    state = style.painted(padded(safe_line(task.state), _STATE_COLUMNS), task.state)
    return f"  {symbol} {padded(safe_line(task.name), names)} {state} {took:>{_DURATION_COLUMNS}}"


def _bar(tasks: Sequence[DisplayedTask], width: int) -> str:
    done = sum(task.state in _ENDED for task in tasks)
    count = f" {done}/{len(tasks)}"
    length = min(width - len(count) - 4, _MAX_BAR_COLUMNS)
    if length < 4:
        return clipped(count.strip(), width)
    filled = length * done // len(tasks)
    return f"  [{'=' * filled}{' ' * (length - filled)}]{count}"


def _selected(
    tasks: Sequence[DisplayedTask], room: int
) -> tuple[list[DisplayedTask], Sequence[DisplayedTask]]:
    """Return the tasks that fit into `room` rows, in their order, and the remaining tasks.

    If there are remaining tasks, one row stays free for their summary.
    """
    if len(tasks) <= room:
        return list(tasks), ()
    ranked = sorted(range(len(tasks)), key=lambda at: (_rank(tasks[at].state), at))
    shown = set(ranked[: max(room - 1, 0)])
    return (
        [task for at, task in enumerate(tasks) if at in shown],
        [task for at, task in enumerate(tasks) if at not in shown],
    )


def _rank(state: str) -> int:
    return _TASK_RANKS.index(state) if state in _TASK_RANKS else len(_TASK_RANKS)
