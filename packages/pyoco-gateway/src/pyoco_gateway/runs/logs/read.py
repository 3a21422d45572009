"""Reads the output of a run page by page."""

from dataclasses import dataclass
from typing import Final

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.runs.read import ReadRun
from pyoco_protocol.http.run_output import RunLogItem, RunLogPage
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.runs.output import OutputChunk, OutputStreamName
from pyoco_protocol.runs.snapshot import RunSnapshot

CURSOR_PATTERN: Final = r"^[0-9]{1,18}\.[0-9]{1,9}$"
ATTEMPT_PATTERN: Final = r"^(latest|all|[1-9][0-9]{0,8})$"
MAX_ITEMS: Final = 1000
_MAX_CHARS: Final = 1_048_576
# Chunks may be small: a run that prints a little now and then makes a chunk each time.
_MAX_CHUNKS: Final = 256


@dataclass(frozen=True, slots=True)
class OutputPosition:
    """A position in a run's output: an entry of the first chunk at or after a sequence."""

    stream_seq: int = 0
    entry: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> "OutputPosition":
        """Return the position of a cursor that matches CURSOR_PATTERN; None is the start."""
        seq, _, entry = (cursor or "0.0").partition(".")
        return cls(int(seq), int(entry))

    def __str__(self) -> str:
        return f"{self.stream_seq}.{self.entry}"


@dataclass(frozen=True, slots=True)
class OutputFilter:
    """Selects lines of a run's output; a condition that is None matches all lines."""

    task: str | None = None
    stream: OutputStreamName | None = None
    attempts: range | None = None

    @classmethod
    def of(
        cls, run: RunSnapshot, *, task: str | None, stream: OutputStreamName | None, attempt: str
    ) -> "OutputFilter":
        """Return the filter of a query; `latest` means the current attempt and later ones."""
        if attempt == "all":
            return cls(task, stream)
        if attempt == "latest":
            return cls(task, stream, range(run.attempt, 2**63))
        only = int(attempt)
        return cls(task, stream, range(only, only + 1))

    def items(self, chunk: OutputChunk, start: int = 0) -> list[tuple[int, RunLogItem]]:
        """Return the matching lines of a chunk from entry `start` on, with their positions."""
        if self.attempts is not None and chunk.attempt not in self.attempts:
            return []
        return [
            (
                place,
                RunLogItem(
                    seq=chunk.first_line + place,
                    ts=entry.ts,
                    attempt=chunk.attempt,
                    task=entry.task,
                    stream=entry.stream,
                    text=entry.text,
                ),
            )
            for place, entry in enumerate(chunk.entries)
            if place >= start
            and self.task in (None, entry.task)
            and self.stream in (None, entry.stream)
        ]


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Reads one page of output, and no more chunks than the page can hold."""

    read_run: ReadRun
    output: OutputStore

    async def __call__(
        self,
        run_id: str,
        caller: Caller,
        *,
        task: str | None,
        stream: OutputStreamName | None,
        attempt: str,
        cursor: str | None,
        limit: int,
    ) -> RunLogPage:
        """Return the next page; raise RunNotFoundError if the caller has no such run.

        A page may hold fewer than `limit` lines, or none, without being the last one.
        """
        # Read the run before its output: once it is terminal, all of its output is stored.
        run = await self.read_run(run_id, caller)
        output_filter = OutputFilter.of(run, task=task, stream=stream, attempt=attempt)
        at, items, chars, truncated = OutputPosition.of(cursor), list[RunLogItem](), 0, False
        for _ in range(_MAX_CHUNKS):
            stored = await self.output.next(run_id, at.stream_seq)
            if stored is None:
                is_last = run.status.is_terminal
                return _page(run_id, items, None if is_last else at, truncated=truncated)
            start = at.entry if stored.stream_seq == at.stream_seq else 0
            at = OutputPosition(stored.stream_seq + 1)
            if stored.chunk is None:
                continue
            for place, item in output_filter.items(stored.chunk, start):
                if len(items) >= limit or chars + len(item.text) > _MAX_CHARS:
                    at = OutputPosition(stored.stream_seq, place)
                    return _page(run_id, items, at, truncated=truncated)
                items.append(item)
                chars += len(item.text)
            truncated = truncated or stored.chunk.truncated
        return _page(run_id, items, at, truncated=truncated)


def _page(
    run_id: str, items: list[RunLogItem], at: OutputPosition | None, *, truncated: bool
) -> RunLogPage:
    return RunLogPage(
        run_id=run_id,
        items=tuple(items),
        next_cursor=None if at is None else str(at),
        truncated=truncated,
    )
