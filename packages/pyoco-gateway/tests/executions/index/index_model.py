"""The tables of the index of executions next to a simple model of their contents."""

import json
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from pyoco_gateway.executions.feed import CommitChange, CommitFeed
from pyoco_gateway.executions.index import open_queries, queries
from pyoco_gateway.executions.index.heads import unix_ms
from pyoco_gateway.executions.index.list_query import (
    ExecutionFilters,
    ListQuery,
    OpenList,
    OpenNodeQuery,
    Order,
)
from pyoco_gateway.executions.index.pages import page_of
from pyoco_gateway.executions.index.tables import Applied, ExecutionTables
from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_gateway.index.hashes import hashed
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commits import CommandRecord, CommitRecord, EventRecord
from pyoco_protocol.executions.instants import instant, milliseconds_of
from pyoco_protocol.executions.statuses import ExecutionStatus
from pyoco_protocol.jetstream.bucket_watch import Entry

JsonObject = dict[str, Any]

BEGIN_MS = milliseconds_of("2026-11-18T03:15:27.000Z")
IDS = [f"execution-{number}" for number in range(8)]
TENANTS = ("acme", "globex")
GRAPHS = ("orders", "refunds")
LABELS = ("eu", "rush", "test")
NODES = ("a", "b", "c")
ANN = Actor(kind=ActorKind.USER, id="ann")


def at(milliseconds: int) -> str:
    """Return the time so many milliseconds after the beginning of the test."""
    return instant(BEGIN_MS + milliseconds)


def commit_of(
    execution_id: str, head: JsonObject, *, tenant: str = "acme", n: int = 1
) -> CommitRecord:
    """Return a commit with this head; the index reads nothing else of it."""
    return CommitRecord(
        commit_id=f"{execution_id}-{n}",
        execution_id=execution_id,
        tenant_id=tenant,
        n=n,
        first_seq=n,
        at=head["updatedAt"],
        prev_hash="0" * 64,
        command=CommandRecord("StartNode", ANN),
        events=(EventRecord("NODE_READY", {"nodeId": "a"}),),
        head=head,
    )


def head(**fields: Any) -> JsonObject:
    """Return a head of an active execution, with these fields."""
    return {
        "status": "ACTIVE",
        "seq": 5,
        "n": 2,
        "graphId": "orders",
        "graphVersion": 1,
        "labels": [],
        "createdAt": at(0),
        "updatedAt": at(0),
        "counts": {"READY": 1},
        "open": [],
        **fields,
    }


def open_task(node_id: str = "a", **fields: Any) -> JsonObject:
    """Return an open entry of a head: a ready external Task, with these fields."""
    ready = {"kind": "task", "status": "READY", "attempt": 0, "since": at(0)}
    return {"id": node_id, **ready, **fields}


def open_wait(node_id: str = "w", **fields: Any) -> JsonObject:
    """Return an open entry of a head: a Wait, with these fields."""
    waiting = {"kind": "wait", "status": "WAITING", "attempt": 1, "since": at(0)}
    return {"id": node_id, **waiting, **fields}


times = st.integers(0, 12)


@st.composite
def open_entries(draw: st.DrawFn, node_id: str) -> JsonObject:
    """Return a strategy for what a head says of an open node."""
    kind = draw(st.sampled_from(("run", "task", "wait")))
    status = "WAITING" if kind == "wait" else draw(st.sampled_from(("READY", "RUNNING", "WAITING")))
    entry = {"id": node_id, "kind": kind, "status": status, "attempt": draw(st.integers(0, 3))}
    entry["since"] = at(draw(times))
    if status == "RUNNING" and draw(st.booleans()):
        entry["retryAt"] = at(draw(times))
    if kind == "wait" and draw(st.booleans()):
        entry["approvals"] = {"needed": 2, "given": draw(st.integers(0, 1))}
    return entry


def created_ms(execution_id: str) -> int:
    """Return when an execution of this test was created."""
    return IDS.index(execution_id) * 5 % 12


def fixed_fields(execution_id: str) -> JsonObject:
    """Return what never changes in the heads of an execution of this test."""
    number = IDS.index(execution_id)
    return {
        "graphId": GRAPHS[number // 2 % 2],
        "graphVersion": 1 + number // 4,
        "labels": [label for bit, label in enumerate(LABELS) if number & 1 << bit],
        "createdAt": at(created_ms(execution_id)),
    }


@st.composite
def heads(draw: st.DrawFn, execution_id: str) -> JsonObject:
    """Return a strategy for heads of an execution."""
    status = draw(st.sampled_from([each.value for each in ExecutionStatus]))
    fields: JsonObject = {
        "status": status,
        "seq": draw(st.integers(1, 99)),
        **fixed_fields(execution_id),
        "updatedAt": at(created_ms(execution_id) + draw(times)),
        "open": [draw(open_entries(node)) for node in NODES if draw(st.booleans())],
    }
    if draw(st.booleans()):
        fields["cancelRequestedAt"] = fields["updatedAt"]
    if draw(st.booleans()):
        fields["nextTimerAt"] = at(draw(times))
    if status != "ACTIVE":
        fields["endedAt"] = fields["updatedAt"]
        if draw(st.booleans()):
            fields["archivedAt"] = fields["updatedAt"]
    return head(**fields)


def tenant_of(execution_id: str) -> str:
    """Return the tenant of one of the executions in this test."""
    return TENANTS[IDS.index(execution_id) % 2]


@st.composite
def filters(draw: st.DrawFn) -> ExecutionFilters:
    """Return a strategy for up to two filters; with more of them, nothing would match."""
    like = draw(st.sampled_from(IDS))
    fixed = fixed_fields(like)
    some_times = times.map(lambda value: BEGIN_MS + value)
    values: dict[str, st.SearchStrategy[Any]] = {
        "statuses": st.frozensets(st.sampled_from(ExecutionStatus), max_size=2),
        "graph_id": st.sampled_from((fixed["graphId"], "other")),
        "graph_version": st.sampled_from((1, 2)),
        "labels": st.sampled_from((frozenset(fixed["labels"]), frozenset({"eu", "other"}))),
        "is_cancel_requested": st.booleans(),
        "is_archived": st.booleans(),
        "created_after": some_times,
        "created_before": some_times,
    }
    chosen = draw(st.lists(st.sampled_from(sorted(values)), unique=True, max_size=2))
    tenant = draw(st.sampled_from((*[tenant_of(like)] * 4, *TENANTS, "nobody")))
    return ExecutionFilters(tenant, **{name: draw(values[name]) for name in chosen})


open_queries_of_tenants = st.builds(
    OpenNodeQuery,
    open_list=st.sampled_from(OpenList),
    tenant_id=st.sampled_from((*TENANTS, "nobody")),
    graph_id=st.sampled_from((None, *GRAPHS)),
    limit=st.integers(1, 4),
)


@dataclass(frozen=True)
class Known:
    """An execution in the model."""

    tenant: str
    head: JsonObject
    revision: int


@dataclass(frozen=True, order=True)
class KnownNode:
    """An open node in the model, in the order of the lists."""

    since: int
    key: int
    execution_id: str = field(compare=False)
    entry: JsonObject = field(compare=False)
    known: Known = field(compare=False)


@contextmanager
def using_strategy(strategy: str) -> Iterator[None]:
    """Make queries use one strategy; normally the number of executions decides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "_MAX_SORTED", 1000 if strategy == "sort" else 0)
        patch.setattr(open_queries, "_MAX_MERGED", 256 if strategy == "sort" else 0)
        yield


class World:
    """The tables of the index next to a simple model of their contents."""

    def __init__(self, strategy: str = "sort", *, in_batches: bool = False) -> None:
        # In batches, `apply` is left to the test.
        self._in_batches = in_batches
        self._strategy = strategy
        self.applied: list[Applied] = []
        self.tables = ExecutionTables(self.applied.append)
        weakref.finalize(self, self.tables.close)
        self.executions: dict[str, Known] = {}
        self.revision = 0
        self._feed = CommitFeed([self], OwnCommits())
        self._changes: list[CommitChange] = []

    def on_change(self, change: CommitChange) -> None:
        self._changes.append(change)

    def on_reset(self) -> None: ...

    def on_resumed(self) -> None: ...

    def on_caught_up(self) -> None: ...

    def commit(self, execution_id: str, new: JsonObject, *, tenant: str | None = None) -> None:
        """Apply a commit with this head."""
        tenant = tenant or tenant_of(execution_id)
        self.deliver(execution_id, commit_of(execution_id, new, tenant=tenant).to_bytes())
        self.executions[execution_id] = Known(tenant, new, self.revision)

    def damage(self, execution_id: str, body: bytes = b"{}") -> None:
        """Apply a commit that cannot be read."""
        self.deliver(execution_id, body)
        self.executions.pop(execution_id, None)

    def expire(self, execution_id: str) -> None:
        """Remove an execution, as after its retention."""
        if (known := self.executions.pop(execution_id, None)) is not None:
            self.tables.remove(execution_id, known.revision)

    def deliver(self, execution_id: str, body: bytes | None) -> None:
        """Pass a message on."""
        self.revision += 1
        self._feed.on_entry(Entry(execution_id, self.revision, body, 1e9, 0))
        if not self._in_batches:
            self.apply()

    def apply(self) -> None:
        """Apply all delivered messages as one batch."""
        self.tables.apply(self._changes)
        self._changes.clear()

    def walk(self, query: ListQuery, *, between: Iterator[None] | None = None) -> list[JsonObject]:
        """Return the items of all pages; `between` writes before each page but the first."""
        items: list[JsonObject] = []
        rest = None
        while True:
            with using_strategy(self._strategy):
                page = page_of(self.tables, query, rest)
            assert len(page.executions) <= query.limit
            shown = [json.loads(each.item) for each in page.executions]
            assert {item["executionId"] for item in shown} <= set(self.matching(query.filters))
            items += shown
            rest = page.rest
            if rest is None:
                return items
            if between is not None:
                next(between, None)

    def matching(self, wanted: ExecutionFilters) -> list[str]:
        """Return the ids of matching executions in the model."""
        return [each for each, known in self.executions.items() if matches(known, wanted)]

    def listed(self, wanted: ExecutionFilters, order: Order) -> list[str]:
        """Return the ids of matching executions in the model, in the order of a list."""
        column = "updatedAt" if order is Order.UPDATED else "createdAt"

        def place(execution_id: str) -> tuple[int, int]:
            return unix_ms(self.executions[execution_id].head[column]), hashed(execution_id)

        return sorted(self.matching(wanted), key=place, reverse=True)

    def open_nodes(self, query: OpenNodeQuery, now_ms: int) -> list[KnownNode]:
        """Return the open nodes of a list in the model."""
        return sorted(
            KnownNode(
                unix_ms(entry.get("retryAt", entry["since"])),
                hashed(execution_id, entry["id"]),
                execution_id,
                entry,
                known,
            )
            for execution_id, known in self.executions.items()
            for entry in known.head["open"]
            if known.tenant == query.tenant_id
            and query.graph_id in (None, known.head["graphId"])
            and _is_in(query.open_list, entry, now_ms)
        )

    def statuses(self, tenant: str | None) -> Counter[str]:
        """Return the number of executions by status in the model."""
        return Counter(
            known.head["status"]
            for known in self.executions.values()
            if tenant in (None, known.tenant)
        )


def matches(known: Known, wanted: ExecutionFilters) -> bool:
    """Return whether an execution of the model matches."""
    head = known.head
    created = unix_ms(head["createdAt"])
    return (
        known.tenant == wanted.tenant_id
        and (not wanted.statuses or head["status"] in wanted.statuses)
        and wanted.graph_id in (None, head["graphId"])
        and wanted.graph_version in (None, head["graphVersion"])
        and wanted.labels <= set(head["labels"])
        and wanted.is_cancel_requested in (None, "cancelRequestedAt" in head)
        and wanted.is_archived in (None, "archivedAt" in head)
        and (wanted.created_after is None or created >= wanted.created_after)
        and (wanted.created_before is None or created < wanted.created_before)
    )


def _is_in(open_list: OpenList, entry: JsonObject, now_ms: int) -> bool:
    if open_list is OpenList.WAITS:
        return bool(entry["status"] == "WAITING")
    if entry["kind"] != "task":
        return False
    if "retryAt" in entry:
        return unix_ms(entry["retryAt"]) <= now_ms
    return bool(entry["status"] == "READY")
