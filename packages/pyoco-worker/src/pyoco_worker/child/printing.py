"""What flows print, sent to the parent at once and with the name of the task that printed it."""

import contextlib
import io
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from pyoco_protocol.runs.output import OutputStreamName
from pyoco_worker.child.output_records import MAX_TEXT_BYTES, pack_full, pack_record

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT_FD: Final = 1
_STDERR_FD: Final = 2
# What a write costs beside its text, so that nobody is kept busy with single characters.
_WRITE_BYTES: Final = 32


class RunningTasks:
    """Knows which task a thread works for. Called from the engine's threads, without a lock."""

    def __init__(self) -> None:
        self._by_thread: dict[int, str] = {}

    def began(self, task: str) -> None:
        """The calling thread begins a task."""
        self._by_thread[threading.get_ident()] = task

    def over(self) -> None:
        """The calling thread is done with its task."""
        self._by_thread.pop(threading.get_ident(), None)

    def clear(self) -> None:
        """No task runs."""
        self._by_thread.clear()

    def current(self) -> str | None:
        """Return the task of the calling thread, or the only one there is; None for neither."""
        task = self._by_thread.get(threading.get_ident())
        if task is None:
            # A thread that user code has started. With one task running, it is that task's.
            running = tuple(self._by_thread.values())
            task = running[0] if len(running) == 1 else None
        return task


class Printing:
    """Stands behind `sys.stdout` and `sys.stderr` for as long as the process lives.

    Every write goes out as it comes: what a flow has printed is with the parent even if the
    flow kills its process with the next statement.
    """

    def __init__(self, mark: bytes, max_bytes: int) -> None:
        self.tasks = RunningTasks()
        self._mark = mark
        self._max_bytes = max_bytes
        self._left = 0
        # User code may close the first three, or point them elsewhere.
        self._stdout_fd = os.dup(_STDOUT_FD)
        self._stderr_fd = os.dup(_STDERR_FD)
        self._originals = (sys.stdout, sys.stderr)
        self._raw_stdout = _Raw(self, "stdout", _STDOUT_FD)
        self._raw_stderr = _Raw(self, "stderr", _STDERR_FD)

    def begin(self) -> None:
        """Take what is printed from now on for a new run's."""
        self._left = self._max_bytes
        self.tasks.clear()
        # Anew each time: the run before may have put others in their place, or closed them.
        sys.stdout = _text(self._raw_stdout)
        sys.stderr = _text(self._raw_stderr)

    def end(self) -> None:
        """Send what user code has left in the streams that we have replaced."""
        for stream in self._originals:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()

    def put(self, stream: OutputStreamName, data: bytes) -> None:
        """Send what was printed; beyond what is kept of a run, without saying by whom."""
        if self._left <= 0:
            _write_all(self._stdout_fd if stream == "stdout" else self._stderr_fd, data)
            return
        now, task = time.time(), self.tasks.current()
        for start in range(0, len(data), MAX_TEXT_BYTES):
            piece = data[start : start + MAX_TEXT_BYTES]
            os.write(self._stdout_fd, pack_record(self._mark, stream, task, now, piece))
            self._left -= len(piece) + _WRITE_BYTES
            if self._left <= 0:
                os.write(self._stdout_fd, pack_full(self._mark, now))
                _write_all(self._stdout_fd, data[start + MAX_TEXT_BYTES :])
                return


class _Raw(io.RawIOBase):
    """The lower end of a text stream, for any thread."""

    def __init__(self, printing: Printing, stream: OutputStreamName, fd: int) -> None:
        self._printing = printing
        self._stream = stream
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        # For those who hand it to other programs.
        return self._fd

    def write(self, data: "ReadableBuffer", /) -> int:
        copied = bytes(data)
        self._printing.put(self._stream, copied)
        return len(copied)

    def close(self) -> None:
        """Stay open: the process has no other."""


def _text(raw: _Raw) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        raw,  # type: ignore[arg-type] # as Python itself does it where nothing is to be buffered
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",
        write_through=True,
    )


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
