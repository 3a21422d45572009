"""A run as it is drawn: the rows of the live view, and the lines that tell of changes."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyoco_client.cli.display.layouts import duration
from pyoco_client.cli.display.safe_text import (
    clipped,
    columns_of,
    encodable,
    padded,
    safe_line,
    safe_text,
)

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER: Final = "|/-\\"

_GREEN, _RED, _YELLOW, _CYAN, _DIM = "32", "31", "33", "36", "2"
_COLOURS: Final = {
    "COMPLETED": _GREEN,
    "SUCCEEDED": _GREEN,
    "FAILED": _RED,
    "CANCELLED": _YELLOW,
    "CANCELLING": _YELLOW,
    "RUNNING": _CYAN,
    "PENDING": _DIM,
}
_SIGNS: Final = {
    "SUCCEEDED": "✓",
    "COMPLETED": "✓",
    "FAILED": "✗",
    "CANCELLED": "!",
    "PENDING": "-",
}
_ASCII_SIGNS: Final = {**_SIGNS, "SUCCEEDED": "+", "COMPLETED": "+", "FAILED": "x"}
_MOVING: Final = frozenset({"RUNNING", "CANCELLING"})
_RUN_ENDS: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
_TASK_ENDS: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
# Which tasks are shown when there is not room for all.
_TASK_RANKS: Final = ("FAILED", "RUNNING", "CANCELLED", "PENDING", "SUCCEEDED")

_STATE_COLUMNS: Final = 9
_DURATION_COLUMNS: Final = 6
# The row of a task without its name.
_TASK_ROW_COLUMNS: Final = len("  s ") + 1 + _STATE_COLUMNS + 1 + _DURATION_COLUMNS
_LEAST_NAME_COLUMNS: Final = 4
_FAIR_NAME_COLUMNS: Final = 16
_MAX_BAR_COLUMNS: Final = 40
_MAX_RESULT_CHARS: Final = 2000
# A worker's heartbeat is never that old while it lives; a clock that far off is not believed.
_BELIEVABLE_SILENCE_SEC: Final = 60.0


@dataclass(frozen=True, slots=True)
class TaskPicture:
    """One task of a run."""

    name: str
    state: str
    started_at: float | None
    duration_sec: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RunPicture:
    """What is drawn of a run."""

    run_id: str
    flow_name: str
    status: str
    tag: str | None
    tasks: tuple[TaskPicture, ...]
    began_at: float | None
    ended_at: float | None
    # When its state was last written.
    changed_at: float
    # The latest time that the server has named: by its clock, it is now at least so late.
    told_at: float
    attempt: int
    error: str | None
    err_id: str | None
    result: Any

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status in _RUN_ENDS

    @classmethod
    def of(cls, snapshot: Any) -> Self:
        """Return the picture of a snapshot, be it a JSON object or one of the SDK's results.

        What is missing or odd is left out: a gateway may be older or newer than this.
        """
        found = snapshot if isinstance(snapshot, Mapping) else snapshot.model_dump(mode="json")
        began = _number(found.get("start_time")) or _number(found.get("submitted_at"))
        return cls(
            run_id=str(found.get("run_id") or "-"),
            flow_name=str(found.get("flow_name") or "-"),
            status=str(found.get("status") or "-"),
            tag=_text(found.get("tag")),
            tasks=tuple(_tasks(found)),
            began_at=began,
            ended_at=_number(found.get("end_time")),
            changed_at=_number(found.get("updated_at")) or 0.0,
            told_at=max(_number(found.get(name)) or 0.0 for name in ("updated_at", "heartbeat_at")),
            attempt=int(_number(found.get("attempt")) or 0),
            error=_text(found.get("error")),
            err_id=_text(found.get("err_id")),
            result=found.get("result"),
        )

    def spelled(self, encoding: str) -> Self:
        """Return the same with names that `encoding` can show, so that they are measured so."""
        return replace(
            self,
            flow_name=encodable(self.flow_name, encoding),
            tag=None if self.tag is None else encodable(self.tag, encoding),
            tasks=tuple(replace(task, name=encodable(task.name, encoding)) for task in self.tasks),
        )

    def now(self, clock: float) -> float:
        """Return the time it is for the server, as far as can be told.

        The clock of this machine may be wrong. While a run is at work its heartbeats tell better.
        """
        silence = clock - self.told_at
        is_believable = silence <= _BELIEVABLE_SILENCE_SEC or self.status == "PENDING"
        return clock if silence >= 0 and is_believable else self.told_at


@dataclass(frozen=True, slots=True)
class Style:
    """How a picture may look on its terminal."""

    columns: int
    lines: int
    colour: bool
    unicode: bool

    def painted(self, text: str, state: str) -> str:
        """Return `text` in the colour of a state, where colours are wanted."""
        colour = _COLOURS.get(state)
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour and colour else text

    def sign(self, state: str, tick: int) -> str:
        """Return the one character that stands for a state; it turns while things go on."""
        if state in _MOVING:
            spinner = SPINNER if self.unicode else ASCII_SPINNER
            return spinner[tick % len(spinner)]
        return (_SIGNS if self.unicode else _ASCII_SIGNS).get(state, "?")


def frame(run: RunPicture, *, now: float, tick: int, style: Style) -> list[str]:
    """Return the rows of the live view, none wider than the screen and not more than it has."""
    width = max(style.columns - 1, 1)  # The last column is left: not all agree what follows it.
    height = max(style.lines - 1, 1)  # The cursor stands below.
    rows = [_headline(run, now=now, tick=tick, style=style, width=width)]
    # Never shortened: after Ctrl-C the id is the way back to the run.
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
    shown, others = _chosen(run.tasks, free)
    longest = max((columns_of(safe_line(task.name)) for task in shown), default=0)
    room = width - _TASK_ROW_COLUMNS
    for task in shown:
        if room < _LEAST_NAME_COLUMNS:
            # Too narrow for columns: the sign tells the state.
            sign = style.painted(style.sign(task.state, tick), task.state)
            rows.append(f"{sign} {clipped(safe_line(task.name), max(width - 2, 0))}")
        else:
            rows.append(_task_row(task, min(longest, room), now=now, tick=tick, style=style))
    if others:
        counts = ", ".join(f"{count} {state}" for state, count in _counted(others))
        rows.append(clipped(f"  {len(others)} more: {safe_line(counts)}", width))
    return rows + footer


def ending(run: RunPicture) -> list[str]:
    """Return the lines below the last frame: what came out, or what went wrong."""
    lines = []
    if run.status == "COMPLETED" and run.result is not None:
        text = safe_line(json.dumps(run.result, ensure_ascii=False))
        if len(text) > _MAX_RESULT_CHARS:
            left = len(text) - _MAX_RESULT_CHARS
            text = f"{text[:_MAX_RESULT_CHARS]}.. ({left} characters more)"
        lines.append(f"result: {text}")
    if run.error or run.err_id:
        what = ": ".join(part for part in (run.err_id, run.error) if part)
        lines += _indented("error: ", what)
    lines += [
        line
        for task in run.tasks
        if task.error and task.error not in (run.error or "")
        for line in _indented(f"error of {safe_line(task.name)}: ", task.error)
    ]
    return lines


def changes(before: RunPicture | None, after: RunPicture) -> Iterator[str]:
    """Yield a line for each status and task state that is not as it was."""
    known = {} if before is None else {task.name: task.state for task in before.tasks}
    for task in after.tasks:
        if task.state != known.get(task.name, "PENDING" if before is None else None):
            took = "" if task.duration_sec is None else f" {duration(task.duration_sec)}"
            yield f"task {safe_line(task.name)} {safe_line(task.state)}{took}"
    if before is None or (before.status, before.attempt) != (after.status, after.attempt):
        again = f" attempt {after.attempt}" if after.attempt > 1 else ""
        yield (
            f"run {safe_line(after.run_id)} {safe_line(after.status)}"
            f" {safe_line(after.flow_name)}{again}"
        )


def _headline(run: RunPicture, *, now: float, tick: int, style: Style, width: int) -> str:
    status = safe_line(run.status)
    went_by = None if run.began_at is None else (run.ended_at or now) - run.began_at
    facts = [status, *([duration(went_by)] if went_by is not None else [])]
    if run.attempt > 1:
        facts.append(f"attempt {run.attempt}")
    # The name gives way first, but not wholly; then what is least needed.
    name = safe_line(run.flow_name)
    least = min(columns_of(name), _FAIR_NAME_COLUMNS)
    while len(facts) > 1 and width - 2 - columns_of("  ".join(["", *facts])) < least:
        facts.pop()
        least = min(least, _LEAST_NAME_COLUMNS)
    tail = "".join(f"  {fact}" for fact in facts)
    name = clipped(name, max(width - 2 - columns_of(tail), 1))
    sign = style.sign(run.status, tick)
    plain = f"{sign} {name}{tail}"
    if columns_of(plain) > width:
        return clipped(plain, width)
    sign, tail = (
        style.painted(sign, run.status),
        tail.replace(status, style.painted(status, run.status), 1),
    )
    return f"{sign} {name}{tail}"


def _task_row(task: TaskPicture, names: int, *, now: float, tick: int, style: Style) -> str:
    if task.duration_sec is not None:
        took = duration(task.duration_sec)
    elif task.state == "RUNNING" and task.started_at is not None:
        took = duration(now - task.started_at)
    else:
        took = ""
    sign = style.painted(style.sign(task.state, tick), task.state)
    state = style.painted(padded(safe_line(task.state), _STATE_COLUMNS), task.state)
    return f"  {sign} {padded(safe_line(task.name), names)} {state} {took:>{_DURATION_COLUMNS}}"


def _bar(tasks: Sequence[TaskPicture], width: int) -> str:
    done = sum(task.state in _TASK_ENDS for task in tasks)
    count = f" {done}/{len(tasks)}"
    length = min(width - len(count) - 4, _MAX_BAR_COLUMNS)
    if length < 4:
        return clipped(count.strip(), width)
    filled = length * done // len(tasks)
    return f"  [{'=' * filled}{' ' * (length - filled)}]{count}"


def _chosen(
    tasks: Sequence[TaskPicture], room: int
) -> tuple[list[TaskPicture], Sequence[TaskPicture]]:
    """Return the tasks to show, in their order, and those there is no room for."""
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


def _counted(tasks: Sequence[TaskPicture]) -> list[tuple[str, int]]:
    counts = Counter(task.state for task in tasks)
    return sorted(counts.items(), key=lambda item: _rank(item[0]))


def _indented(label: str, text: str) -> list[str]:
    first, *rest = safe_text(text).splitlines() or [""]
    return [f"{label}{first}", *(f"  {line}" for line in rest)]


def _tasks(found: Mapping[str, Any]) -> Iterator[TaskPicture]:
    states, records = found.get("tasks"), found.get("task_records")
    states = states if isinstance(states, Mapping) else {}
    records = records if isinstance(records, Mapping) else {}
    for name in {**states, **records}:
        record = records.get(name)
        record = record if isinstance(record, Mapping) else {}
        started, ended = _number(record.get("started_at")), _number(record.get("ended_at"))
        took = _number(record.get("duration_ms"))
        if took is not None:
            took /= 1000
        elif started is not None and ended is not None:
            took = ended - started
        yield TaskPicture(
            name=str(name),
            state=str(states.get(name) or record.get("state") or "-"),
            started_at=started,
            duration_sec=took,
            error=_text(record.get("error")),
        )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
