"""An in-memory index of all dead letters, by reason, tag, run and tenant."""

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

# Only the newest letters are kept, if the stream has no limit.
MAX_LETTERS: Final = 100_000
# The oldest letters are dropped in batches of this size; one by one would be slow.
_DROP_BATCH: Final = 1000
_MAX_SEQ: Final = 2**63 - 1

# As the rowid, `seq` is the last column of every index, so each query reads one index in order.
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
    """The fields of a letter that filters use; all other fields are ignored."""

    timestamp: float
    reason: str
    run_id: str | None = None
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """The letters to find; a condition that is None matches all."""

    reason: str | None = None
    # The tag a letter is stored under: `unknown` if its job had none.
    tag: str | None = None
    run_id: str | None = None
    # Set from the caller, never from the query string.
    tenant_id: str | None = None


class DeadLetterIndex:
    """Follows the stream of dead letters and finds those that match a filter.

    It may return letters that another gateway has removed. A caller that finds one missing
    removes it from the index with `drop`.
    """

    def __init__(self, max_letters: int = MAX_LETTERS) -> None:
        self._max_letters = max_letters
        self._last_seq = 0
        self._first_seq = 0
        self._changed = anyio.Event()
        # Used on the event loop, because each call takes microseconds.
        self._letters = sqlite3.connect(":memory:", isolation_level=None)
        self._letters.execute("PRAGMA journal_mode = OFF")
        self._letters.executescript(_SCHEMA)

    def __len__(self) -> int:
        """Number of letters in the index."""
        (count,) = self._letters.execute("SELECT count(*) FROM letters").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the database."""
        self._letters.close()

    def on_entry(self, entry: Entry) -> None:
        """Add a letter."""
        outline = _outline_of(entry)
        self._letters.execute(
            "INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?)",
            (
                *(entry.revision, outline.reason, entry.key, outline.run_id),
                outline.tenant_id or DEFAULT_TENANT,
            ),
        )
        self._last_seq = entry.revision
        self._changed.set()
        if entry.revision % _DROP_BATCH == 0:
            self._drop_oldest()

    def on_reset(self) -> None:
        """Forget all letters: the stream was replaced."""
        self._letters.execute("DELETE FROM letters")
        self._last_seq = self._first_seq = 0

    def on_resumed(self) -> None:
        """Do nothing: letters stored during a gap are delivered now."""

    def on_caught_up(self) -> None:
        """Do nothing."""

    def has_seen(self, seq: int) -> bool:
        """Whether all letters up to a sequence have been delivered."""
        return self._last_seq >= seq

    async def wait_for(self, seq: int, *, timeout_sec: float) -> bool:
        """Wait until all letters up to `seq` are known; return False if that takes too long."""
        with anyio.move_on_after(timeout_sec):
            while not self.has_seen(seq):
                self._changed = anyio.Event()
                await self._changed.wait()
        return self.has_seen(seq)

    def forget_before(self, first_seq: int) -> None:
        """Hide letters that the stream has dropped, and remove some of them from the index."""
        self._first_seq = first_seq
        self._letters.execute(
            "DELETE FROM letters WHERE seq IN "
            "(SELECT seq FROM letters WHERE seq < ? ORDER BY seq LIMIT ?)",
            (first_seq, 2 * _DROP_BATCH),
        )

    def drop(self, seq: int) -> None:
        """Remove a letter that no longer exists."""
        self._letters.execute("DELETE FROM letters WHERE seq = ?", (seq,))

    def newest(self, letter_filter: LetterFilter, *, before: int | None, limit: int) -> list[int]:
        """Return the sequences of matching letters, newest first."""
        before = _MAX_SEQ if before is None else before
        return self._find(letter_filter, "DESC", (self._first_seq, before - 1), limit)

    def oldest(self, letter_filter: LetterFilter, *, after: int, limit: int) -> list[int]:
        """Return the sequences of matching letters, oldest first."""
        return self._find(letter_filter, "ASC", (max(self._first_seq, after + 1), _MAX_SEQ), limit)

    def _find(
        self, letter_filter: LetterFilter, order: str, between: tuple[int, int], limit: int
    ) -> list[int]:
        conditions = {
            field: value for field, value in asdict(letter_filter).items() if value is not None
        }
        # A unary plus keeps SQLite from using an index. With a run id, only the index by run is
        # good: a run has few letters, while one reason may have all of them.
        others = "+" if letter_filter.run_id is not None else ""
        equal = (f"{'' if field == 'run_id' else others}{field} = ?" for field in conditions)
        where = " AND ".join([*equal, "seq BETWEEN ? AND ?"])
        rows = self._letters.execute(
            # All text put into the SQL is from this file.
            f"SELECT seq FROM letters WHERE {where} ORDER BY seq {order} LIMIT ?",  # noqa: S608
            (*conditions.values(), *between, limit),
        )
        return [int(seq) for (seq,) in rows]

    def _drop_oldest(self) -> None:
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
