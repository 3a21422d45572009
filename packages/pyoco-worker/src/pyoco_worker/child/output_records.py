"""How a child says which task printed what, in the midst of what other programs print there.

What flows print and what the programs they start write come through one pipe, so that it stays in
order. The child puts a mark and a head before its own; the rest is taken as it comes.
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
_FULL: Final = len(_STREAMS)
_MAX_TASK_BYTES: Final = 128
# A write of this size is never torn apart by those of others to the same pipe.
_MAX_RECORD_BYTES: Final = select.PIPE_BUF
MAX_TEXT_BYTES: Final = _MAX_RECORD_BYTES - MARK_BYTES - _HEAD.size - _MAX_TASK_BYTES


@dataclass(frozen=True, slots=True)
class Printed:
    """Some bytes that were printed; they need not be a line, nor whole characters."""

    stream: OutputStreamName
    data: bytes
    task: str | None = None
    # None for what other programs wrote: nobody has looked at a clock.
    ts: float | None = None
    # The child says no more than this of what its run prints.
    is_last: bool = False


def pack_record(
    mark: bytes, stream: OutputStreamName, task: str | None, ts: float, text: bytes
) -> bytes:
    """Return a record of at most MAX_TEXT_BYTES of text, to be written at once."""
    name = (task or "").encode("utf-8", "replace")[:_MAX_TASK_BYTES]
    head = _HEAD.pack(_STREAMS.index(stream), ts, len(name), len(text))
    return b"".join((mark, head, name, text))


def pack_full(mark: bytes, ts: float) -> bytes:
    """Return the record that ends all records of a run."""
    return mark + _HEAD.pack(_FULL, ts, 0, 0)


class RecordCutter:
    """Tells records and the rest apart, however the bytes arrive."""

    def __init__(self, mark: bytes, stream: OutputStreamName) -> None:
        self._mark = mark
        # Where what has no head was written.
        self._stream = stream
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Printed]:
        """Yield what is whole now."""
        buffer = self._buffer + data if self._buffer else data
        at = 0
        while (found := buffer.find(self._mark, at)) >= 0:
            if found > at:
                yield Printed(self._stream, buffer[at:found])
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
            if kind > _FULL:
                # User code has learned our mark; what it makes of it is its own affair.
                continue
            yield Printed(
                stream=_STREAMS[kind] if kind < _FULL else self._stream,
                data=buffer[text:end],
                task=buffer[body:text].decode("utf-8", "replace") or None,
                ts=ts,
                is_last=kind == _FULL,
            )
        keep = len(buffer) - _begun_mark(buffer, at, self._mark)
        if keep > at:
            yield Printed(self._stream, buffer[at:keep])
        self._buffer = buffer[keep:]

    def forget(self) -> None:
        """Drop what is not whole yet."""
        self._buffer = b""

    def rest(self) -> Iterator[Printed]:
        """Yield what looked like the beginning of a record and is none; nothing more comes."""
        left, self._buffer = self._buffer, b""
        if left and not left.startswith(self._mark):
            yield Printed(self._stream, left)


def _begun_mark(buffer: bytes, start: int, mark: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a mark."""
    for size in range(min(len(mark) - 1, len(buffer) - start), 0, -1):
        if buffer.endswith(mark[:size]):
            return size
    return 0
