"""What metrics and the sweep ask the index: numbers by status, the oldest ready Task, timers."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pyoco_gateway.executions.index.heads import status_of
from pyoco_gateway.executions.index.open_nodes import OpenKind
from pyoco_gateway.executions.index.tables import ExecutionTables
from pyoco_gateway.index.hashes import hashed
from pyoco_protocol.executions.statuses import ExecutionStatus

# Before all times and keys.
_FIRST: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class ExecutionLevels:
    """Numbers of executions and open nodes."""

    by_status: dict[ExecutionStatus, int]
    open_waits: int
    # How long the oldest ready Task has been ready; 0 without a ready Task.
    oldest_ready_task_sec: float


@dataclass(frozen=True, slots=True)
class OverdueExecution:
    """An execution with a timer that is overdue; `due_ms` and `key` are its place in the order."""

    execution_id: str
    due_ms: int
    key: int


@dataclass(frozen=True, slots=True)
class EndedExecution:
    """An execution that has ended, and the stream sequence of its last commit.

    `ended_ms` and `key` are its place in the order.
    """

    execution_id: str
    revision: int
    ended_ms: int
    key: int


def levels(tables: ExecutionTables, tenant_id: str | None, now_ms: int) -> ExecutionLevels:
    """Return the numbers of a tenant, or of all tenants together for None."""
    sizes: Counter[ExecutionStatus] = Counter()
    tenants = {tenant for tenant, _ in tables.class_sizes}
    if tenant_id is not None:
        tenants &= {hashed(tenant_id)}
    for (tenant, class_number), size in tables.class_sizes.items():
        if tenant in tenants:
            sizes[status_of(class_number)] += size
    ready_sec = [_ready_sec(tables, tenant, now_ms) for tenant in tenants]
    return ExecutionLevels(
        by_status={status: sizes[status] for status in ExecutionStatus},
        open_waits=sum(_waits(tables, tenant) for tenant in tenants),
        oldest_ready_task_sec=max(ready_sec, default=0.0),
    )


def due_before(
    tables: ExecutionTables, before_ms: int, after: OverdueExecution | None, limit: int
) -> list[OverdueExecution]:
    """Return executions of all tenants with a timer before a time, the most overdue first.

    Those up to `after` are left out.
    """
    place = (_FIRST, _FIRST) if after is None else (after.due_ms, after.key)
    found = tables.db.execute(
        "SELECT execution_id, next_timer, key FROM executions INDEXED BY executions_timer"
        " WHERE next_timer < ? AND (next_timer, key) > (?, ?) ORDER BY next_timer, key LIMIT ?",
        (before_ms, *place, limit),
    )
    return [OverdueExecution(*row) for row in found]


def ended_before(
    tables: ExecutionTables, before_ms: int, after: EndedExecution | None, limit: int
) -> list[EndedExecution]:
    """Return executions of all tenants that ended before a time, the earliest first.

    Those up to `after` are left out.
    """
    place = (_FIRST, _FIRST) if after is None else (after.ended_ms, after.key)
    found = tables.db.execute(
        "SELECT execution_id, revision, ended, key FROM executions INDEXED BY executions_ended"
        " WHERE ended < ? AND (ended, key) > (?, ?) ORDER BY ended, key LIMIT ?",
        (before_ms, *place, limit),
    )
    return [EndedExecution(*row) for row in found]


def number_ended_before(tables: ExecutionTables, before_ms: int) -> int:
    """Return the number of executions of all tenants that ended before a time."""
    (found,) = tables.db.execute(
        "SELECT COUNT(*) FROM executions INDEXED BY executions_ended WHERE ended < ?", (before_ms,)
    ).fetchone()
    return int(found)


def _waits(tables: ExecutionTables, tenant: int) -> int:
    (found,) = tables.db.execute(
        "SELECT SUM(n) FROM sources WHERE tenant = ? AND kind = ?", (tenant, OpenKind.WAITING)
    ).fetchone()
    return int(found or 0)


def _ready_sec(tables: ExecutionTables, tenant: int, now_ms: int) -> float:
    """Return how long the oldest ready Task of a tenant has been ready."""
    oldest = now_ms
    for kind in (OpenKind.READY, OpenKind.RETRY):
        (found,) = tables.db.execute(
            "SELECT MIN(since) FROM open_nodes INDEXED BY open_of_tenant"
            " WHERE tenant = ? AND kind = ?",
            (tenant, kind),
        ).fetchone()
        oldest = oldest if found is None else min(oldest, found)
    return (now_ms - oldest) / 1000
