"""Sends everything that flows print to the parent, with the name of the task that printed it."""

import contextlib
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from pyoco_protocol.runs.output import OutputStreamName
from pyoco_worker.child.output_records import MAX_TEXT_BYTES, pack_limit_reached, pack_record
from pyoco_worker.child.running_tasks import RunningTasks

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT_FD: Final = 1
_STDERR_FD: Final = 2
# Counted for each write in addition to its text, so that many tiny writes reach the limit too.
_WRITE_BYTES: Final = 32


class StdioCapture:
    """Replaces `sys.stdout` and `sys.stderr` for the lifetime of the process.

    Writes are not buffered: the parent has all output even if the flow kills its process with
    the next statement.
    """

    def __init__(self, mark: bytes, max_bytes: int) -> None:
        self.tasks = RunningTasks()
        self._mark = mark
        self._max_bytes = max_bytes
        self._left = 0
        # Duplicates, because user code may close or redirect descriptors 1 and 2.
        self._stdout_fd = os.dup(_STDOUT_FD)
        self._stderr_fd = os.dup(_STDERR_FD)
        self._originals = (sys.stdout, sys.stderr)
        self._raw_stdout = _RawStream(self, "stdout", _STDOUT_FD)
        self._raw_stderr = _RawStream(self, "stderr", _STDERR_FD)

    def begin(self) -> None:
        """Count output from now on as output of a new run."""
        self._left = self._max_bytes
        self.tasks.clear()
        # New text streams for each run, because the previous run may have replaced or closed them.
        sys.stdout = _text_stream(self._raw_stdout)
        sys.stderr = _text_stream(self._raw_stderr)

    def end(self) -> None:
        """Flush the original streams, which user code may have written to."""
        for stream in self._originals:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()

    def write(self, stream: OutputStreamName, data: bytes) -> None:
        """Send output as records; beyond the run's limit, send it without the task."""
        if self._left <= 0:
            _write_all(self._stdout_fd if stream == "stdout" else self._stderr_fd, data)
            return
        now, task = time.time(), self.tasks.current()
        for start in range(0, len(data), MAX_TEXT_BYTES):
            piece = data[start : start + MAX_TEXT_BYTES]
            os.write(self._stdout_fd, pack_record(self._mark, stream, task, now, piece))
            self._left -= len(piece) + _WRITE_BYTES
            if self._left <= 0:
                os.write(self._stdout_fd, pack_limit_reached(self._mark, now))
                _write_all(self._stdout_fd, data[start + MAX_TEXT_BYTES :])
                return


class _RawStream(io.RawIOBase):
    """The raw stream below a text stream; any thread may write to it."""

    def __init__(self, capture: StdioCapture, stream: OutputStreamName, fd: int) -> None:
        self._capture = capture
        self._stream = stream
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        # Flows pass `sys.stdout` to other programs, which need a descriptor.
        return self._fd

    def write(self, data: "ReadableBuffer", /) -> int:
        copied = bytes(data)
        self._capture.write(self._stream, copied)
        return len(copied)

    def close(self) -> None:
        """Stay open, because all runs of the process share this stream."""


def _text_stream(raw: _RawStream) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        raw,  # type: ignore[arg-type] # Python itself does this for unbuffered streams
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",
        write_through=True,
    )


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
