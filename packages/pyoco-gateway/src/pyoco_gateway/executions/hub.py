"""Wakes tasks that wait for a change of an execution."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from pyoco_gateway.executions.feed import CommitChange


class ExecutionHub:
    """Wakes tasks when an execution has new commits; the tasks read the log themselves."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[Listener]] = defaultdict(set)

    @contextmanager
    def listening(self, execution_id: str) -> Iterator["Listener"]:
        """Give a listener for the changes of one execution.

        Open it before reading the log, so that no change falls between.
        """
        listener = Listener()
        self._listeners[execution_id].add(listener)
        try:
            yield listener
        finally:
            self._listeners[execution_id].discard(listener)
            if not self._listeners[execution_id]:
                del self._listeners[execution_id]

    def on_change(self, change: CommitChange) -> None:
        """Wake the tasks that wait for this execution."""
        for listener in self._listeners.get(change.execution_id, ()):
            listener.wake()

    def on_reset(self) -> None:
        """Wake all tasks: the stream was replaced or set back."""
        self._wake_all()

    def on_resumed(self) -> None:
        """Wake all tasks: changes may have been missed."""
        self._wake_all()

    def on_caught_up(self) -> None:
        """Do nothing: each commit has woken its tasks already."""

    def _wake_all(self) -> None:
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.wake()


class Listener:
    """Waits for changes of one execution."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def wake(self) -> None:
        """Let `wait` return."""
        self._changed.set()

    async def wait(self) -> None:
        """Return at the next change, or at once if there was one since the last call."""
        await self._changed.wait()
        self._changed = anyio.Event()
