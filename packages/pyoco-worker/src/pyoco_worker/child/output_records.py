"""Records that tell which task printed which output.

Output of flows and of the programs they start goes through one pipe, which keeps its order. The
child writes the output of flows as records, each with a mark and a head. Bytes outside records come
from other programs.
"""

import select
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyoco_protocol.runs.output import OutputStreamName

MARK_BYTES: Final = 16
# Kind, time, length of the task's name, length of the text.
_HEAD: Final = struct.Struct("!BdHH")
_STREAMS: Final[tuple[OutputStreamName, ...]] = ("stdout", "stderr")
_LIMIT_REACHED: Final = len(_STREAMS)
_MAX_TASK_BYTES: Final = 128
# A write of at most this size to a pipe is atomic: other writers cannot split it.
_MAX_RECORD_BYTES: Final = select.PIPE_BUF
MAX_TEXT_BYTES: Final = _MAX_RECORD_BYTES - MARK_BYTES - _HEAD.size - _MAX_TASK_BYTES


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Some bytes of output, not necessarily whole lines or whole characters."""

    stream: OutputStreamName
    data: bytes
    task: str | None = None
    # None for output of other programs, whose time is unknown.
    ts: float | None = None
    # The run has reached its output limit: no more records follow.
    is_last: bool = False


def pack_record(
    mark: bytes, stream: OutputStreamName, task: str | None, ts: float, text: bytes
) -> bytes:
    """Return a record of at most MAX_TEXT_BYTES of text, for one atomic write."""
    name = (task or "").encode("utf-8", "replace")[:_MAX_TASK_BYTES]
    head = _HEAD.pack(_STREAMS.index(stream), ts, len(name), len(text))
    return b"".join((mark, head, name, text))


def pack_limit_reached(mark: bytes, ts: float) -> bytes:
    """Return the last record of a run that has reached its output limit."""
    return mark + _HEAD.pack(_LIMIT_REACHED, ts, 0, 0)


class OutputDecoder:
    """Separates records from other output; the bytes may arrive in any pieces."""

    def __init__(self, mark: bytes, stream: OutputStreamName) -> None:
        self._mark = mark
        # The stream of bytes outside records.
        self._stream = stream
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[OutputPiece]:
        """Yield the pieces that are complete after `data`."""
        buffer = self._buffer + data if self._buffer else data
        at = 0
        while (found := buffer.find(self._mark, at)) >= 0:
            if found > at:
                yield OutputPiece(self._stream, buffer[at:found])
                at = found
            body = found + MARK_BYTES + _HEAD.size
            if body > len(buffer):
                self._buffer = buffer[at:]
                return
            kind, ts, task_length, length = _HEAD.unpack_from(buffer, found + MARK_BYTES)
            text = body + task_length
            end = text + length
            if end > len(buffer):
                self._buffer = buffer[at:]
                return
            at = end
            if kind > _LIMIT_REACHED:
                # User code has found out the mark and written an invalid record; skip it.
                continue
            yield OutputPiece(
                stream=_STREAMS[kind] if kind < _LIMIT_REACHED else self._stream,
                data=buffer[text:end],
                task=buffer[body:text].decode("utf-8", "replace") or None,
                ts=ts,
                is_last=kind == _LIMIT_REACHED,
            )
        keep = len(buffer) - _partial_mark(buffer, at, self._mark)
        if keep > at:
            yield OutputPiece(self._stream, buffer[at:keep])
        self._buffer = buffer[keep:]

    def forget(self) -> None:
        """Drop the incomplete piece."""
        self._buffer = b""

    def rest(self) -> Iterator[OutputPiece]:
        """Yield the last bytes, which looked like the start of a mark. Call it at the end."""
        left, self._buffer = self._buffer, b""
        if left and not left.startswith(self._mark):
            yield OutputPiece(self._stream, left)


def _partial_mark(buffer: bytes, start: int, mark: bytes) -> int:
    """Return how many bytes at the end of `buffer` may be the start of a mark."""
    for size in range(min(len(mark) - 1, len(buffer) - start), 0, -1):
        if buffer.endswith(mark[:size]):
            return size
    return 0
