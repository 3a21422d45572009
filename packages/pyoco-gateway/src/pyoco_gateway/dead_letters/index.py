"""What the gateway knows of all dead letters: enough to find those that are asked for."""

import logging
import sqlite3
from dataclasses import asdict, dataclass
from typing import Final

import anyio
from pydantic import ValidationError

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_protocol.dead_letters import UNREADABLE
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.wire import WireModel

_log = logging.getLogger(__name__)

# Of a stream without a limit the newest are known.
MAX_LETTERS: Final = 100_000
# How many more may be held until the oldest are let go of: one by one would be slow.
_SLACK: Final = 1000
_BEYOND_ALL: Final = 2**63 - 1

# `seq` ends every index by itself, so that each question is answered in order from one of them.
_SCHEMA: Final = """
    CREATE TABLE letters (
        seq INTEGER PRIMARY KEY, reason TEXT, tag TEXT, run_id TEXT, tenant_id TEXT
    );
    CREATE INDEX by_reason ON letters (reason);
    CREATE INDEX by_tag ON letters (tag);
    CREATE INDEX by_tag_and_reason ON letters (tag, reason);
    CREATE INDEX by_run ON letters (run_id);
    CREATE INDEX by_tenant ON letters (tenant_id);
    CREATE INDEX by_tenant_and_reason ON letters (tenant_id, reason);
    CREATE INDEX by_tenant_and_tag ON letters (tenant_id, tag);
    CREATE INDEX by_tenant_tag_and_reason ON letters (tenant_id, tag, reason);
"""


class _Outline(WireModel):
    """What letters are looked for by; the rest need not be understood."""

    timestamp: float
    reason: str
    run_id: str | None = None
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters; None does not matter."""

    reason: str | None = None
    # The tag a letter is kept under: `unknown` where its job named none.
    tag: str | None = None
    run_id: str | None = None
    # Never asked for in a query: whose letters the caller may see.
    tenant_id: str | None = None


class DeadLetterIndex:
    """Follows the stream of dead letters and answers which of them match a filter.

    It may name letters that are gone: another gateway may have removed them. Whoever finds one
    missing says so with `drop`.
    """

    def __init__(self, max_letters: int = MAX_LETTERS) -> None:
        self._max_letters = max_letters
        self._told = 0
        self._first = 0
        self._moved = anyio.Event()
        # Lives in memory and on the event loop: each call takes microseconds.
        self._letters = sqlite3.connect(":memory:", isolation_level=None)
        self._letters.execute("PRAGMA journal_mode = OFF")
        self._letters.executescript(_SCHEMA)

    def __len__(self) -> int:
        """How many letters are known."""
        (count,) = self._letters.execute("SELECT count(*) FROM letters").fetchone()
        return int(count)

    def close(self) -> None:
        """Forget everything for good."""
        self._letters.close()

    def on_entry(self, entry: Entry) -> None:
        """Note a letter."""
        outline = _outline_of(entry)
        self._letters.execute(
            "INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?)",
            (
                *(entry.revision, outline.reason, entry.key, outline.run_id),
                outline.tenant_id or DEFAULT_TENANT,
            ),
        )
        self._told = entry.revision
        self._moved.set()
        if entry.revision % _SLACK == 0:
            self._let_go_of_the_oldest()

    def on_reset(self) -> None:
        """Forget all: the stream is another one."""
        self._letters.execute("DELETE FROM letters")
        self._told = self._first = 0

    def on_resumed(self) -> None:
        """Letters that came during a break are told now."""

    def on_caught_up(self) -> None:
        """What follows is new."""

    def has_heard_of(self, seq: int) -> bool:
        """Whether the letter at a sequence, and all before it, have been told."""
        return self._told >= seq

    async def hear_of(self, seq: int, *, timeout_sec: float) -> bool:
        """Wait until all letters up to `seq` are known; False where that takes too long."""
        with anyio.move_on_after(timeout_sec):
            while not self.has_heard_of(seq):
                self._moved = anyio.Event()
                await self._moved.wait()
        return self.has_heard_of(seq)

    def forget_before(self, first_seq: int) -> None:
        """Name no letters that the stream has dropped; let go of them, some at a time."""
        self._first = first_seq
        self._letters.execute(
            "DELETE FROM letters WHERE seq IN "
            "(SELECT seq FROM letters WHERE seq < ? ORDER BY seq LIMIT ?)",
            (first_seq, 2 * _SLACK),
        )

    def drop(self, seq: int) -> None:
        """Let go of a letter that is gone."""
        self._letters.execute("DELETE FROM letters WHERE seq = ?", (seq,))

    def newest(self, wanted: LetterFilter, *, before: int | None, limit: int) -> list[int]:
        """Return the sequences of letters that match, the newest first."""
        before = _BEYOND_ALL if before is None else before
        return self._find(wanted, "DESC", (self._first, before - 1), limit)

    def oldest(self, wanted: LetterFilter, *, after: int, limit: int) -> list[int]:
        """Return the sequences of letters that match, the oldest first."""
        return self._find(wanted, "ASC", (max(self._first, after + 1), _BEYOND_ALL), limit)

    def _find(
        self, wanted: LetterFilter, order: str, between: tuple[int, int], limit: int
    ) -> list[int]:
        asked = {field: value for field, value in asdict(wanted).items() if value is not None}
        # The plus keeps an index from being used: a run has few letters, a reason may have all.
        others = "+" if wanted.run_id is not None else ""
        equal = (f"{'' if field == 'run_id' else others}{field} = ?" for field in asked)
        where = " AND ".join([*equal, "seq BETWEEN ? AND ?"])
        rows = self._letters.execute(
            # Every word of it is spelled in this file.
            f"SELECT seq FROM letters WHERE {where} ORDER BY seq {order} LIMIT ?",  # noqa: S608
            (*asked.values(), *between, limit),
        )
        return [int(seq) for (seq,) in rows]

    def _let_go_of_the_oldest(self) -> None:
        self._letters.execute(
            "DELETE FROM letters WHERE seq <= "
            "(SELECT seq FROM letters ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (self._max_letters,),
        )


def _outline_of(entry: Entry) -> _Outline:
    try:
        return _Outline.model_validate_json(entry.value or b"")
    except ValidationError:
        _log.warning("dead letter cannot be read", extra={"seq": entry.revision})
        return _Outline(timestamp=entry.written_at, reason=UNREADABLE)
