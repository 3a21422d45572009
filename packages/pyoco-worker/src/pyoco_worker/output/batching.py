"""How printed bytes become lines, and lines become chunks of bounded size."""

import codecs
from collections import deque
from typing import Final

from pyoco_protocol.runs.output import OutputChunk, OutputEntry, OutputStreamName
from pyoco_worker.child.output_records import Printed

MAX_LINE_CHARS: Final = 8192
LINE_CUT: Final = " … (line cut)"
# What a line takes beside its text: without it, empty lines would be free.
_LINE_BYTES: Final = 32
# What a chunk takes beside its entries.
_ENVELOPE_BYTES: Final = 256
# A line that is not at its end yet is shown after this time.
_OPEN_SEC: Final = 0.5

_Decoder: Final = codecs.getincrementaldecoder("utf-8")


class _Line:
    """The line that one source is at."""

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
        """Return what there is of the line; the next one begins where it is whole."""
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


class LogBatching:
    """Collects what one attempt of a run prints, up to a limit, and hands it out in chunks."""

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

    def add(self, printed: Printed, now: float) -> bool:
        """Take what was printed; return whether more is wanted."""
        if self.is_full:
            return False
        ts = now if printed.ts is None else printed.ts
        # What has no time was written by other programs, which keep to lines of their own.
        key = (printed.task, printed.stream, printed.ts is None)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(printed.task, printed.stream)
        *whole, rest = line.decoder.decode(printed.data).split("\n")
        for text in whole:
            line.extend(text, ts)
            self._ready.append(line.take(ts, is_whole=True))
            self._left -= len(text) + _LINE_BYTES
            if self._left <= 0:
                break
        else:
            line.extend(rest, ts)
            self._left -= len(rest)
        if self._left <= 0 or printed.is_last:
            self._close(ts)
        return not self.is_full

    def is_ready(self, now: float) -> bool:
        """Whether there is something to hand out."""
        return bool(self._ready) or any(_is_old(line, now) for line in self._lines.values())

    def finish(self, now: float) -> None:
        """Take lines that were never ended for whole: nothing more comes."""
        for line in self._lines.values():
            line.extend(line.decoder.decode(b"", final=True), now)
            if line.ts is not None:
                self._ready.append(line.take(now, is_whole=True))
        self._lines.clear()

    def next_chunk(self, max_bytes: int, now: float) -> OutputChunk | None:
        """Return the next chunk of at most `max_bytes`; None where there is nothing.

        A single line that is larger makes a chunk of its own.
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
        said = f"(more than {self._max_bytes} bytes were printed: the rest is not kept)"
        self._ready.append(OutputEntry(ts=ts, stream="stderr", text=said))


def _is_old(line: _Line, now: float) -> bool:
    return line.ts is not None and line.ts <= now - _OPEN_SEC
