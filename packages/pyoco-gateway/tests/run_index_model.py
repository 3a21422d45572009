"""A run index next to a simple model of its contents."""

import json
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pyoco_gateway.runs.feed import RunChange, RunFeed
from pyoco_gateway.runs.index import queries as index_queries
from pyoco_gateway.runs.index.cursors import Cursor
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery
from pyoco_gateway.runs.index.pages import Page, page_of
from pyoco_gateway.runs.index.tables import IndexTables
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_testkit.builders import snapshot_json

RUNS = [f"run-{number}" for number in range(6)]
# The tenant of each run; None means `default`.
TENANTS = dict(zip(RUNS, (None, "acme", "default", "acme", "globex", None), strict=True))


@dataclass
class Recorder:
    """A follower that keeps all changes."""

    changes: list[RunChange] = field(default_factory=list)

    def on_change(self, change: RunChange) -> None:
        self.changes.append(change)

    def on_reset(self) -> None: ...

    def on_resumed(self) -> None: ...

    def on_caught_up(self) -> None: ...


@dataclass(frozen=True)
class Known:
    """A run in the model."""

    record: dict[str, Any]
    changed: int
    created: float


@contextmanager
def using_strategy(strategy: str) -> Iterator[None]:
    """Make queries use one strategy; normally the numbers of runs and groups decide."""
    max_merged = 0 if strategy == "scan" else 256
    max_sorted = 1000 if strategy == "sort" else -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_queries, "_MAX_MERGED", max_merged)
        patch.setattr(index_queries, "_MAX_SORTED", max_sorted)
        yield


class World:
    """A run index next to a simple model of its contents."""

    def __init__(self, strategy: str = "merge") -> None:
        self._strategy = strategy
        self.tables = IndexTables()
        weakref.finalize(self, self.tables.close)
        self.runs: dict[str, Known] = {}
        self.revision = 0

    def write(self, run_id: str, **fields: Any) -> None:
        record = snapshot_json(run_id=run_id, **fields)
        self._deliver(run_id, json.dumps(record).encode())
        before = self.runs.get(run_id)
        if before is None:
            self.runs[run_id] = Known(record, self.revision, record["submitted_at"])
        elif before.record != {**record, "heartbeat_at": before.record["heartbeat_at"]}:
            self.runs[run_id] = Known(record, self.revision, before.created)

    def heartbeat(self, run_id: str) -> None:
        """Write a record in which only the heartbeat has changed."""
        if (known := self.runs.get(run_id)) is not None:
            record = {**known.record, "heartbeat_at": known.record["heartbeat_at"] + 1}
            self._deliver(run_id, json.dumps(record).encode())
            self.runs[run_id] = replace(known, record=record)

    def remove(self, run_id: str, value: bytes | None = None) -> None:
        self._deliver(run_id, value)
        self.runs.pop(run_id, None)

    def _deliver(self, run_id: str, value: bytes | None) -> None:
        self.revision += 1
        recorder = Recorder()
        RunFeed([recorder]).on_entry(Entry(run_id, self.revision, value, 1e9 + self.revision, 0))
        self.tables.apply(recorder.changes)

    def page(self, query: ListQuery, cursor: Cursor | None = None) -> tuple[list[Any], Page]:
        with using_strategy(self._strategy):
            page = page_of(self.tables, query, cursor)
        return [json.loads(each.item) for each in page.runs], page

    def matching(self, filters: ListFilters) -> list[Known]:
        return [known for known in self.runs.values() if matches(known, filters)]


def matches(known: Known, filters: ListFilters) -> bool:
    record = known.record
    return (
        (not filters.statuses or record["status"] in filters.statuses)
        and filters.flow in (None, record["flow_name"])
        and record["flow_name"].startswith(filters.flow_prefix or "")
        and filters.tag in (None, record.get("tag"))
        and filters.workflow_yaml_sha256 in (None, record.get("workflow_yaml_sha256"))
        and filters.tenant_id in (None, record.get("tenant_id", "default"))
        and known.created >= (filters.submitted_after or 0)
        and known.created < (filters.submitted_before or float("inf"))
    )
