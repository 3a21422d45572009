"""The rows of the live view of a run."""

from typing import Final

from pyoco_client.cli.display.cells import duration
from pyoco_client.cli.display.displayed_run import DisplayedRun, DisplayedTask
from pyoco_client.cli.display.frame_parts import Style, progress_row, selected, summary_row
from pyoco_client.cli.display.safe_text import clipped, columns_of, padded, safe_line

_ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
# If the screen is too small for all tasks, tasks in the first of these states are shown first.
_TASK_RANKS: Final = ("FAILED", "RUNNING", "CANCELLED", "PENDING", "SUCCEEDED")

_STATE_COLUMNS: Final = 9
_DURATION_COLUMNS: Final = 6
# The width of a task's row without the name of the task.
_TASK_ROW_COLUMNS: Final = len("  s ") + 1 + _STATE_COLUMNS + 1 + _DURATION_COLUMNS
_MIN_NAME_COLUMNS: Final = 4
_PREFERRED_NAME_COLUMNS: Final = 16


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
    done = sum(task.state in _ENDED for task in run.tasks)
    footer = [progress_row(done, len(run.tasks), width)] if len(run.tasks) > 1 else []
    free = height - len(rows) - len(footer)
    if free < 1:
        return [*rows[: height - len(footer)], *footer][:height]
    shown, others = selected(run.tasks, free, _TASK_RANKS)
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
        rows.append(summary_row(others, width, _TASK_RANKS))
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
