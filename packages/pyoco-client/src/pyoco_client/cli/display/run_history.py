"""Derives start times and durations of tasks from several snapshots of a run."""

import math
from dataclasses import replace

from pyoco_client.cli.display.displayed_run import DisplayedRun, DisplayedTask


class RunHistory:
    """Adds times of tasks to the snapshots of a run in progress.

    Task records, with their times, come with the end of a run. An earlier snapshot holds only the
    state of each task; its `updated_at` is the time of the last change.
    """

    def __init__(self) -> None:
        self._attempt = 0
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def with_times(self, run: DisplayedRun) -> DisplayedRun:
        """Return the run with the times of its tasks, in the order in which they began."""
        if run.attempt != self._attempt:
            # A new attempt runs all tasks again.
            self._attempt = run.attempt
            self._began.clear()
            self._took.clear()
        tasks = [self._timed(task, run.changed_at) for task in run.tasks]
        # Of tasks with the same start time, those that have ended began first.
        tasks.sort(key=lambda task: (self._began.get(task.name, math.inf), task.state == "RUNNING"))
        return replace(run, tasks=tuple(tasks))

    def _timed(self, task: DisplayedTask, changed_at: float) -> DisplayedTask:
        if task.state == "PENDING":
            return task
        is_new = task.name not in self._began
        if task.started_at is not None:
            self._began[task.name] = task.started_at
        elif is_new:
            self._began[task.name] = changed_at
        if task.state == "RUNNING":
            return replace(task, started_at=self._began[task.name])
        # A task that no snapshot showed as RUNNING gets no duration: its start is unknown.
        if task.duration_sec is None and not is_new and task.name not in self._took:
            self._took[task.name] = max(0.0, changed_at - self._began[task.name])
        known = task.duration_sec if task.duration_sec is not None else self._took.get(task.name)
        return replace(task, duration_sec=known)
