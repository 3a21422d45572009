"""Reads what a run printed, page by page."""

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
# A run that prints a little now and then has a chunk for each time.
_MAX_CHUNKS: Final = 256


@dataclass(frozen=True, slots=True)
class Position:
    """A place in what a run printed: an entry of the chunk at, or first after, a sequence."""

    stream_seq: int = 0
    entry: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> "Position":
        """Return the place a cursor names, which looks like CURSOR_PATTERN; None is the start."""
        seq, _, entry = (cursor or "0.0").partition(".")
        return cls(int(seq), int(entry))

    def __str__(self) -> str:
        return f"{self.stream_seq}.{self.entry}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of a run are asked for; None asks for all."""

    task: str | None = None
    stream: OutputStreamName | None = None
    attempts: range | None = None

    @classmethod
    def of(
        cls, run: RunSnapshot, *, task: str | None, stream: OutputStreamName | None, attempt: str
    ) -> "Wanted":
        """Return what a query asks for; `latest` is the one the run is at, and those after it."""
        if attempt == "all":
            return cls(task, stream)
        if attempt == "latest":
            return cls(task, stream, range(run.attempt, 2**63))
        only = int(attempt)
        return cls(task, stream, range(only, only + 1))

    def items(self, chunk: OutputChunk, start: int = 0) -> list[tuple[int, RunLogItem]]:
        """Return the lines in a chunk that are asked for, each with its place in the chunk."""
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
class ReadLogs:
    """Reads the stream for one page: never more of it than a page can hold."""

    read_run: ReadRun
    logs: OutputStore

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
        """Return the next page; raise RunNotFoundError where there is no such run.

        A page may hold less than `limit` lines, or none, and still not be the last one.
        """
        # Before the stream: what is over now has been stored whole.
        run = await self.read_run(run_id, caller)
        wanted = Wanted.of(run, task=task, stream=stream, attempt=attempt)
        at, items, chars, truncated = Position.of(cursor), list[RunLogItem](), 0, False
        for _ in range(_MAX_CHUNKS):
            stored = await self.logs.next(run_id, at.stream_seq)
            if stored is None:
                is_end = run.status.is_terminal
                return _page(run_id, items, None if is_end else at, truncated=truncated)
            start = at.entry if stored.stream_seq == at.stream_seq else 0
            at = Position(stored.stream_seq + 1)
            if stored.chunk is None:
                continue
            for place, item in wanted.items(stored.chunk, start):
                if len(items) >= limit or chars + len(item.text) > _MAX_CHARS:
                    at = Position(stored.stream_seq, place)
                    return _page(run_id, items, at, truncated=truncated)
                items.append(item)
                chars += len(item.text)
            truncated = truncated or stored.chunk.truncated
        return _page(run_id, items, at, truncated=truncated)


def _page(
    run_id: str, items: list[RunLogItem], at: Position | None, *, truncated: bool
) -> RunLogPage:
    return RunLogPage(
        run_id=run_id,
        items=tuple(items),
        next_cursor=None if at is None else str(at),
        truncated=truncated,
    )
