"""Splits the output of a run into lines, and the lines into chunks of bounded size."""

import codecs
from collections import deque
from typing import Final

from pyoco_protocol.runs.output import OutputChunk, OutputEntry, OutputStreamName
from pyoco_worker.child.output_records import OutputPiece

MAX_LINE_CHARS: Final = 8192
LINE_CUT: Final = " … (line cut)"
# Counted for each line in addition to its text, so that empty lines count too.
_LINE_BYTES: Final = 32
# Size of a chunk without its entries.
_ENVELOPE_BYTES: Final = 256
# An unfinished line is sent after this time.
_UNFINISHED_SEC: Final = 0.5

_Decoder: Final = codecs.getincrementaldecoder("utf-8")


class _Line:
    """The current line of one source: a task and a stream."""

    def __init__(self, task: str | None, stream: OutputStreamName) -> None:
        self.task = task
        self.stream: OutputStreamName = stream
        self.decoder = _Decoder("replace")
        self.ts: float | None = None
        self._parts: list[str] = []
        self._chars = 0
        self._is_cut = False

    def extend(self, text: str, ts: float) -> None:
        if not text or self._is_cut:
            return
        if self.ts is None:
            self.ts = ts
        room = MAX_LINE_CHARS - self._chars
        if len(text) > room:
            text = text[:room] + LINE_CUT
            self._is_cut = True
        self._parts.append(text)
        self._chars += len(text)

    def take(self, ts: float, *, is_whole: bool) -> OutputEntry:
        """Return the text collected so far; if `is_whole`, the next text starts a new line."""
        entry = OutputEntry(
            ts=ts if self.ts is None else self.ts,
            task=self.task,
            stream=self.stream,
            text="".join(self._parts).removesuffix("\r"),
        )
        self._parts.clear()
        self.ts = None
        if is_whole:
            self._chars = 0
            self._is_cut = False
        return entry


class OutputBuffer:
    """Collects the output of one attempt of a run, up to a limit, and returns it in chunks."""

    def __init__(self, run_id: str, attempt: int, max_bytes: int) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._lines: dict[tuple[str | None, OutputStreamName, bool], _Line] = {}
        self._ready: deque[OutputEntry] = deque()
        self._chunks = 0
        self._entries = 0
        self.is_full = max_bytes <= 0

    def add(self, piece: OutputPiece, now: float) -> bool:
        """Add a piece of output; return whether more is wanted."""
        if self.is_full:
            return False
        ts = now if piece.ts is None else piece.ts
        # Pieces without a time come from other programs and must not be joined with lines of
        # the flow.
        key = (piece.task, piece.stream, piece.ts is None)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(piece.task, piece.stream)
        *whole, rest = line.decoder.decode(piece.data).split("\n")
        for text in whole:
            line.extend(text, ts)
            self._ready.append(line.take(ts, is_whole=True))
            self._left -= len(text) + _LINE_BYTES
            if self._left <= 0:
                break
        else:
            line.extend(rest, ts)
            self._left -= len(rest)
        if self._left <= 0 or piece.is_last:
            self._close(ts)
        return not self.is_full

    def is_ready(self, now: float) -> bool:
        """Whether there is a chunk to send."""
        return bool(self._ready) or any(_is_old(line, now) for line in self._lines.values())

    def finish(self, now: float) -> None:
        """Complete all unfinished lines, because no more output follows."""
        for line in self._lines.values():
            line.extend(line.decoder.decode(b"", final=True), now)
            if line.ts is not None:
                self._ready.append(line.take(now, is_whole=True))
        self._lines.clear()

    def next_chunk(self, max_bytes: int, now: float) -> OutputChunk | None:
        """Return the next chunk of at most `max_bytes`; None if the buffer is empty.

        A single line that is larger becomes a chunk by itself.
        """
        for line in self._lines.values():
            if _is_old(line, now):
                self._ready.append(line.take(now, is_whole=False))
        entries: list[OutputEntry] = []
        left = max_bytes - _ENVELOPE_BYTES
        while self._ready:
            left -= len(self._ready[0].model_dump_json()) + 1
            if left < 0 and entries:
                break
            entries.append(self._ready.popleft())
        if not entries:
            return None
        chunk = OutputChunk(
            run_id=self._run_id,
            attempt=self._attempt,
            n=self._chunks,
            first_line=self._entries,
            entries=tuple(entries),
            truncated=self.is_full and not self._ready,
        )
        self._chunks += 1
        self._entries += len(entries)
        return chunk

    def _close(self, ts: float) -> None:
        self.finish(ts)
        self.is_full = True
        notice = f"(more than {self._max_bytes} bytes were printed: the rest is not kept)"
        self._ready.append(OutputEntry(ts=ts, stream="stderr", text=notice))


def _is_old(line: _Line, now: float) -> bool:
    return line.ts is not None and line.ts <= now - _UNFINISHED_SEC
