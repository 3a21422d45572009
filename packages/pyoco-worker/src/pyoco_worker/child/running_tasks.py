"""Tracks which task each thread of a child executes."""

import threading


class RunningTasks:
    """The current task by thread. The engine's threads call it, without a lock."""

    def __init__(self) -> None:
        self._by_thread: dict[int, str] = {}

    def started(self, task: str) -> None:
        """Note that the calling thread starts a task."""
        self._by_thread[threading.get_ident()] = task

    def ended(self) -> None:
        """Note that the calling thread has ended its task."""
        self._by_thread.pop(threading.get_ident(), None)

    def clear(self) -> None:
        """Forget all tasks."""
        self._by_thread.clear()

    def current(self) -> str | None:
        """Return the task of the calling thread, or else the only running task, if there is one."""
        task = self._by_thread.get(threading.get_ident())
        if task is None:
            # User code started this thread. If only one task runs, the thread belongs to it.
            running = tuple(self._by_thread.values())
            task = running[0] if len(running) == 1 else None
        return task
