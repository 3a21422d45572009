"""What several snapshots of a run tell together: when its tasks began, and how long they took."""

import math
from dataclasses import replace

from pyoco_client.cli.display.run_picture import RunPicture, TaskPicture


class RunHistory:
    """Fills in what a snapshot of a run at work leaves out.

    Task records, with their times, come with the end of a run. Before that a snapshot says only
    which tasks are at work; it was written when that last changed.
    """

    def __init__(self) -> None:
        self._attempt = 0
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def with_times(self, run: RunPicture) -> RunPicture:
        """Return a later picture with the times of its tasks, in the order in which they began."""
        if run.attempt != self._attempt:
            # All is done again.
            self._attempt = run.attempt
            self._began.clear()
            self._took.clear()
        tasks = [self._seen(task, run.changed_at) for task in run.tasks]
        # Of those that were first heard of together, what is over began first.
        tasks.sort(key=lambda task: (self._began.get(task.name, math.inf), task.state == "RUNNING"))
        return replace(run, tasks=tuple(tasks))

    def _seen(self, task: TaskPicture, changed_at: float) -> TaskPicture:
        if task.state == "PENDING":
            return task
        is_new = task.name not in self._began
        if task.started_at is not None:
            self._began[task.name] = task.started_at
        elif is_new:
            self._began[task.name] = changed_at
        if task.state == "RUNNING":
            return replace(task, started_at=self._began[task.name])
        # One that was never seen at work took less than there is between two snapshots.
        if task.duration_sec is None and not is_new and task.name not in self._took:
            self._took[task.name] = max(0.0, changed_at - self._began[task.name])
        known = task.duration_sec if task.duration_sec is not None else self._took.get(task.name)
        return replace(task, duration_sec=known)
