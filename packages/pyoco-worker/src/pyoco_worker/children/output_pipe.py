"""The pipes through which a child and the programs it starts print."""

import asyncio
import os
import select
from collections.abc import Callable, Iterator
from typing import Final

from pyoco_protocol.runs.output import OutputStreamName
from pyoco_worker.child.output_records import Printed, RecordCutter

_READ_BYTES: Final = 65_536
# As much as a pipe can hold; what comes after it was printed later than whatever we wait for.
_DRAIN_READS: Final = 2
# With what stands around it; the text in it is less.
_TAIL_BYTES: Final = 32_768
# No record is longer, so one that is cut off at the front ends before this.
_TORN_BYTES: Final = 4096

# Takes what was printed; False says that no more is wanted.
TakePrinted = Callable[[Printed], bool]


class OutputPipe:
    """Reads one pipe for as long as the child lives, for whichever run is at it."""

    def __init__(self, fd: int, stream: OutputStreamName, mark: bytes) -> None:
        self._fd: int | None = fd
        self._stream: OutputStreamName = stream
        self._mark = mark
        self._cutter = RecordCutter(mark, stream)
        self._tail = bytearray()
        self._take: TakePrinted | None = None
        self._pending = select.poll()
        self._pending.register(fd, select.POLLIN)
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def begin(self, take: TakePrinted | None) -> None:
        """Hand what comes to `take`, and forget what came before."""
        self._tail.clear()
        self._cutter.forget()
        self._take = take

    def end(self) -> None:
        """Hand on what has come until now; what comes later is nobody's."""
        # Asking first is cheaper than to be told that there is nothing, as there mostly is.
        if self._fd is not None and self._pending.poll(0):
            for _ in range(_DRAIN_READS):
                if not self._read():
                    break
        if self._take is not None:
            self._pass_on(self._cutter.rest())
        self._take = None

    def close(self) -> None:
        """Read what is left, then no more. Harmless twice."""
        self.end()
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def last_words(self) -> str:
        """Return the end of what was printed since the run began."""
        kept = bytes(self._tail[-_TAIL_BYTES:])
        if len(self._tail) > len(kept):
            # It may begin in the middle of a record.
            kept = kept[max(kept.find(self._mark, 0, _TORN_BYTES), 0) :]
        cutter = RecordCutter(self._mark, self._stream)
        pieces = [*cutter.feed(kept), *cutter.rest()]
        return b"".join(piece.data for piece in pieces).decode("utf-8", "replace").strip()

    def _read(self) -> bool:
        """Take what has come; return whether there may be more."""
        if self._fd is None:
            return False
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            return False
        self._tail += data
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]
        if self._take is not None:
            self._pass_on(self._cutter.feed(data))
        return True

    def _pass_on(self, pieces: Iterator[Printed]) -> None:
        for piece in pieces:
            if self._take is None or not self._take(piece):
                # Not looked at from here on: a flow that prints without end costs only the reading.
                self._take = None
                return
