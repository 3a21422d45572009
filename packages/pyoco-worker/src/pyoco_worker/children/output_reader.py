"""Reads the stdout and stderr pipes of a child and of the programs it starts."""

import asyncio
import os
import select
from collections.abc import Callable, Iterator
from typing import Final

from pyoco_protocol.runs.output import OutputStreamName
from pyoco_worker.child.output_records import OutputDecoder, OutputPiece

_READ_BYTES: Final = 65_536
# Two reads cover the capacity of a pipe. Later data was written after the run had ended.
_DRAIN_READS: Final = 2
# Includes the heads of records, so the text in it is shorter.
_TAIL_BYTES: Final = 32_768
# The maximum size of a record. A record whose start is cut off ends within this many
# bytes of the cut.
_MAX_RECORD_BYTES: Final = 4096

# Receives a piece of output; returns False if no more is wanted.
TakeOutput = Callable[[OutputPiece], bool]


class OutputReader:
    """Reads one pipe while the child lives, and passes the output to the current run."""

    def __init__(self, fd: int, stream: OutputStreamName, mark: bytes) -> None:
        self._fd: int | None = fd
        self._stream: OutputStreamName = stream
        self._mark = mark
        self._decoder = OutputDecoder(mark, stream)
        self._tail = bytearray()
        self._take: TakeOutput | None = None
        self._pending = select.poll()
        self._pending.register(fd, select.POLLIN)
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def begin(self, take: TakeOutput | None) -> None:
        """Pass output to `take` from now on, and forget earlier output."""
        self._tail.clear()
        self._decoder.forget()
        self._take = take

    def end(self) -> None:
        """Pass on the output that has arrived; later output belongs to no run."""
        # Polling first is cheaper than a failed read, and mostly there is nothing to read.
        if self._fd is not None and self._pending.poll(0):
            for _ in range(_DRAIN_READS):
                if not self._read():
                    break
        if self._take is not None:
            self._pass_on(self._decoder.rest())
        self._take = None

    def close(self) -> None:
        """Read the rest of the pipe and close it; can be repeated."""
        self.end()
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def last_output(self) -> str:
        """Return the end of the output since the run started."""
        kept = bytes(self._tail[-_TAIL_BYTES:])
        if len(self._tail) > len(kept):
            # The cut may be in the middle of a record.
            kept = kept[max(kept.find(self._mark, 0, _MAX_RECORD_BYTES), 0) :]
        decoder = OutputDecoder(self._mark, self._stream)
        pieces = [*decoder.feed(kept), *decoder.rest()]
        return b"".join(piece.data for piece in pieces).decode("utf-8", "replace").strip()

    def _read(self) -> bool:
        """Read once from the pipe; return whether there may be more."""
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
            self._pass_on(self._decoder.feed(data))
        return True

    def _pass_on(self, pieces: Iterator[OutputPiece]) -> None:
        for piece in pieces:
            if self._take is None or not self._take(piece):
                # The run has reached its output limit. Further output is read, but not decoded.
                self._take = None
                return
