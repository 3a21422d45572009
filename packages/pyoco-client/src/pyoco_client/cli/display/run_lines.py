"""Lines of text about a run: its changes, and its result or errors."""

import json
from collections.abc import Iterator
from typing import Final

from pyoco_client.cli.display.cells import duration
from pyoco_client.cli.display.displayed_run import DisplayedRun
from pyoco_client.cli.display.safe_text import safe_line, safe_text

_MAX_RESULT_CHARS: Final = 2000


def result_lines(run: DisplayedRun) -> list[str]:
    """Return the lines with the result of a run, or with its error and those of its tasks."""
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


def change_lines(before: DisplayedRun | None, after: DisplayedRun) -> Iterator[str]:
    """Yield a line for each changed task state, and one for a changed status of the run."""
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


def _indented(label: str, text: str) -> list[str]:
    first, *rest = safe_text(text).splitlines() or [""]
    return [f"{label}{first}", *(f"  {line}" for line in rest)]
