"""Pages, polls and counts, compared with a model that scans every run."""

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_gateway.runs.index.cursors import Cursor, FollowCursor
from pyoco_gateway.runs.index.list_query import ListFilters, ListQuery, Order
from pyoco_gateway.runs.index.pages import Page
from pyoco_gateway.runs.index.queries import counts
from pyoco_gateway.runs.index.tables import run_key
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.builders import snapshot_json
from run_index_model import RUNS, TENANTS, World, matches

FLOWS = ["daily", "daily_x", "etl", "日次"]
fields = st.fixed_dictionaries(
    {
        "status": st.sampled_from([status.value for status in RunStatus]),
        "flow_name": st.sampled_from(FLOWS),
        "tag": st.sampled_from(["gpu", "cpu", None]),
        "workflow_yaml_sha256": st.sampled_from(["aa", "bb", None]),
        # Writers' clocks differ and may not advance.
        "updated_at": st.integers(0, 8).map(float),
        "submitted_at": st.integers(0, 4).map(float),
    }
)
Step = tuple[str, str, dict[str, Any]]
writes: st.SearchStrategy[Step] = st.tuples(st.just("write"), st.sampled_from(RUNS), fields)
heartbeats: st.SearchStrategy[Step] = st.tuples(
    st.just("heartbeat"), st.sampled_from(RUNS), st.just({})
)
removals: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["remove", "corrupt"]), st.sampled_from(RUNS), st.just({})
)
changes_of_runs = st.lists(st.one_of(writes, writes, heartbeats, removals), max_size=25)
run_filters = st.builds(
    ListFilters,
    statuses=st.frozensets(st.sampled_from(RunStatus), max_size=3),
    flow=st.none() | st.sampled_from(FLOWS),
    flow_prefix=st.none() | st.sampled_from(["", "daily", "d", "日"]),
    tag=st.none() | st.sampled_from(["gpu", "cpu", "none"]),
    workflow_yaml_sha256=st.none() | st.sampled_from(["aa", "bb", "cc"]),
    submitted_after=st.none() | st.integers(0, 4).map(float),
    submitted_before=st.none() | st.integers(1, 5).map(float),
    tenant_id=st.none() | st.sampled_from(["acme", "globex", "default", "unknown"]),
)
limits = st.integers(1, 4)
strategies = st.sampled_from(["merge", "scan", "sort"])


def apply(world: World, step: Step) -> None:
    action, run_id, values = step
    if action == "write":
        world.write(run_id, tenant_id=TENANTS[run_id], **values)
    elif action == "heartbeat":
        world.heartbeat(run_id)
    else:
        world.remove(run_id, None if action == "remove" else b'{"status": "?"}')


@given(strategy=strategies, steps=changes_of_runs, filters=run_filters, limit=limits)
def test_a_list_holds_the_latest_matching_runs(
    strategy: str, steps: list[Step], filters: ListFilters, limit: int
) -> None:
    world = World(strategy)
    for step in steps:
        apply(world, step)
    expected = sorted(
        world.matching(filters),
        key=lambda known: (known.record["updated_at"], run_key(known.record["run_id"])),
        reverse=True,
    )

    items, page = world.page(ListQuery(filters, limit=limit))

    assert [item["run_id"] for item in items] == [
        known.record["run_id"] for known in expected[:limit]
    ]
    assert all(item.items() <= world.runs[item["run_id"]].record.items() for item in items)
    assert (page.next_cursor, page.resume_cursor) == (None, None)


@given(steps=changes_of_runs, filters=run_filters)
def test_counts_are_those_of_the_matching_runs(steps: list[Step], filters: ListFilters) -> None:
    world = World()
    for step in steps:
        apply(world, step)
    filters = replace(filters, submitted_after=None, submitted_before=None)
    matching = [known.record["status"] for known in world.matching(filters)]

    assert counts(world.tables, filters) == {
        status: matching.count(status.value) for status in RunStatus
    }
    assert world.tables.size == len(world.runs)
    # Groups without runs are removed.
    (groups,) = world.tables.db.execute("SELECT COUNT(*) FROM groups").fetchone()
    assert groups <= len(world.runs)


@given(
    strategy=strategies,
    before=changes_of_runs,
    between=changes_of_runs,
    filters=run_filters,
    limit=limits,
)
def test_the_history_shows_each_run_once_although_runs_change_between_pages(
    strategy: str, before: list[Any], between: list[Step], filters: ListFilters, limit: int
) -> None:
    """A run that matches all the time is shown exactly once."""
    world = World(strategy)
    for step in before:
        apply(world, step)
    always = {known.record["run_id"] for known in world.matching(filters)}
    shown: list[tuple[float, str]] = []
    cursor: Cursor | None = None
    pending = list(between)
    while True:
        items, page = world.page(ListQuery(filters, order=Order.CREATED, limit=limit), cursor)
        shown += [(world.runs[item["run_id"]].created, item["run_id"]) for item in items]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        if pending:
            apply(world, pending.pop(0))
            always &= {known.record["run_id"] for known in world.matching(filters)}
    run_ids = [run_id for _, run_id in shown]
    assert always <= set(run_ids)
    assert all(run_ids.count(run_id) == 1 for run_id in always)
    if not between:
        assert [created for created, _ in shown] == sorted(
            (each for each, _ in shown), reverse=True
        )


walks = st.one_of(
    st.builds(ListQuery, updated_after=st.integers(-1, 8).map(float)),
    st.just(ListQuery(order=Order.CREATED)),
)


class Reader:
    """A client that reads a list to its end, then follows it, while runs change."""

    def __init__(self, world: World, query: ListQuery, writes: list[Step]) -> None:
        self.world = world
        self.query = query
        self.pending = list(writes)
        self.view: dict[str, dict[str, Any]] = {}

    def read(self, limit: int, cursor: Cursor | None) -> Page:
        """Read a page; one write happens after it."""
        items, page = self.world.page(replace(self.query, limit=limit), cursor)
        assert len(items) <= limit
        # Before the write: a full page may be the last one.
        assert page.next_cursor is None or len(items) == limit
        self.view.update({item["run_id"]: item for item in items})
        if self.pending:
            apply(self.world, self.pending.pop(0))
        return page

    def walk(self, limit: int) -> FollowCursor:
        """Read until there is no next page; return the position of the first page."""
        first = page = self.read(limit, None)
        while page.next_cursor is not None:
            page = self.read(limit, page.next_cursor)
            assert page.resume_cursor == first.resume_cursor
        assert first.resume_cursor is not None
        return first.resume_cursor

    def follow(self, limit: int, position: FollowCursor) -> list[int]:
        """Read until nothing changes any more; return the revisions of the changes."""
        revisions: list[int] = []
        while True:
            had_pending = bool(self.pending)
            page = self.read(limit, position)
            revisions += [int(each.position[0]) for each in page.runs]
            assert page.resume_cursor is not None
            position = page.resume_cursor
            if page.next_cursor is None and not had_pending:
                return revisions
            assert page.next_cursor in (None, position)


@given(
    strategy=strategies,
    before=changes_of_runs,
    between=changes_of_runs,
    walk=walks,
    filters=run_filters,
    limits=st.tuples(limits, limits),
)
@settings(max_examples=300)
def test_a_walk_and_its_follower_end_with_the_latest_state_of_every_matching_run(
    *,
    strategy: str,
    before: list[Step],
    between: list[Step],
    walk: ListQuery,
    filters: ListFilters,
    limits: tuple[int, int],
) -> None:
    world = World(strategy)
    for step in before:
        apply(world, step)
    start = world.revision
    reader = Reader(world, replace(walk, filters=filters), between)

    position = reader.walk(limits[0])
    revisions = reader.follow(limits[1], position)

    # In the order of storage, without duplicates.
    assert revisions == sorted(set(revisions))
    for run_id, known in world.runs.items():
        is_new = known.changed > start
        if matches(known, filters) and (
            is_new or walk.updated_after is None or known.record["updated_at"] > walk.updated_after
        ):
            assert reader.view[run_id].items() <= known.record.items()
            assert reader.view[run_id]["status"] == known.record["status"]
        elif not is_new:
            assert run_id not in reader.view


@given(steps=changes_of_runs, between=changes_of_runs, walk=walks, limit=limits)
def test_a_walk_ends_although_every_page_is_followed_by_a_write(
    steps: list[Step], between: list[Step], walk: ListQuery, limit: int
) -> None:
    world = World()
    for step in steps:
        apply(world, step)
    reader = Reader(world, walk, between)
    shown: list[tuple[float, int]] = []
    cursor: Cursor | None = None
    while True:
        page = reader.read(limit, cursor)
        shown += [each.position for each in page.runs]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    # Each position is passed once, from the newest to the oldest.
    assert shown == sorted(set(shown), reverse=True)


@given(strategy=strategies, steps=changes_of_runs, filters=run_filters)
def test_heartbeats_are_not_followed(
    strategy: str, steps: list[Step], filters: ListFilters
) -> None:
    world = World(strategy)
    for step in steps:
        apply(world, step)
    _, page = world.page(ListQuery(filters, updated_after=0.0))
    for run_id in RUNS:
        world.heartbeat(run_id)
    _, page = world.page(ListQuery(filters), page.resume_cursor)
    assert page == Page([], None, FollowCursor(world.revision))


@given(
    strategy=strategies,
    steps=changes_of_runs,
    filters=run_filters,
    updated_after=st.integers(-1, 8).map(float),
)
def test_updated_after_lists_the_matching_runs_updated_later_newest_first(
    strategy: str, steps: list[Step], filters: ListFilters, updated_after: float
) -> None:
    world = World(strategy)
    for step in steps:
        apply(world, step)

    items, _ = world.page(ListQuery(filters, updated_after=updated_after, limit=200))

    expected = sorted(
        (
            (known.record["updated_at"], run_key(run_id), run_id)
            for run_id, known in world.runs.items()
            if matches(known, filters) and known.record["updated_at"] > updated_after
        ),
        reverse=True,
    )
    assert [item["run_id"] for item in items] == [run_id for _, _, run_id in expected]


def test_a_run_keeps_its_submission_time_when_a_writer_drops_it() -> None:
    """Workers of an earlier server write whole records and drop unknown fields."""
    world = World()
    world.write("old", submitted_at=1.0)
    world.write("new", submitted_at=2.0)
    world.write("old", submitted_at=None, status="COMPLETED", updated_at=9.0)

    items, _ = world.page(ListQuery(order=Order.CREATED))

    assert [(item["run_id"], item["submitted_at"]) for item in items] == [
        ("new", 2.0),
        ("old", 1.0),
    ]


def test_a_list_item_is_small_and_holds_no_params_or_records() -> None:
    world = World()
    world.write(
        RUNS[0],
        params={"secret": 1},
        task_records={"a": {"output": "x" * 10_000}},
        error="日" * 5000,
        worker_id="w1",
        attempt=2,
    )

    (item,), page = world.page(ListQuery())

    assert len(page.runs[0].item.encode()) < 1500
    assert {"params", "task_records", "tasks", "heartbeat_at"}.isdisjoint(item)
    assert (item["worker_id"], item["attempt"], len(item["error"])) == ("w1", 2, 300)


def test_an_unreadable_record_removes_its_run_and_is_counted_until_it_is_readable() -> None:
    world = World()
    world.write(RUNS[0])
    for value in (b"{", b'{"run_id": "another", "status": "PENDING"}', b"\xff", b"[]"):
        world.remove(RUNS[0], value)
        assert (world.tables.size, world.tables.unreadable) == (0, 1)
    # The outline is valid, but the list item is not.
    odd = snapshot_json(run_id=RUNS[0], tags=7)
    world.remove(RUNS[0], json.dumps(odd).encode())
    assert (world.tables.size, world.tables.unreadable) == (0, 1)
    world.write(RUNS[0])
    assert (world.tables.size, world.tables.unreadable) == (1, 0)
    world.remove(RUNS[0])
    assert (world.tables.size, world.tables.unreadable) == (0, 0)


def test_no_page_reads_more_rows_than_it_shows() -> None:
    """SQLite's query plan shows that every page comes from an index in the right order."""
    world = World()
    for number in range(30):
        world.write(
            f"r{number}",
            workflow_yaml_sha256="aa",
            tag="gpu",
            updated_at=float(number),
            tenant_id=("acme", "globex", None)[number % 3],
        )
    queries: list[str] = []
    world.tables.db.set_trace_callback(queries.append)
    every = ListFilters(
        frozenset({RunStatus.PENDING}), flow="hello", tag="gpu", workflow_yaml_sha256="aa"
    )
    for tenant_id in (None, "acme", "default"):
        for filters in (ListFilters(), replace(every, workflow_yaml_sha256=None), every):
            own = replace(filters, tenant_id=tenant_id)
            world.page(ListQuery(own))
            world.page(ListQuery(own, order=Order.CREATED))
            _, page = world.page(ListQuery(own, updated_after=10.0, limit=2))
            world.page(ListQuery(own, limit=2), page.next_cursor)
            world.page(ListQuery(own), FollowCursor(20))
    world.tables.db.set_trace_callback(None)

    pages = [sql.replace("Inf", "9e999") for sql in queries if "revision, item" in sql]
    assert len(pages) >= 45
    for sql in pages:
        plan = [row[-1] for row in world.tables.db.execute(f"EXPLAIN QUERY PLAN {sql}")]
        # One search that starts where the page starts, without sorting.
        assert len(plan) == 1, plan
        assert re.search(r"SEARCH runs USING INDEX \w+ \(.*\(\w+,key\)[<>]\(\?,\?\)", plan[0]), plan
        if "updated > " in sql:
            # It also ends where the list ends: a short page reads no older runs.
            assert "updated>?" in plan[0], plan
