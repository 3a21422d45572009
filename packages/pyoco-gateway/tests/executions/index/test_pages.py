"""Lists of executions, compared with a simple model."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.index.index_model import (
    BEGIN_MS,
    IDS,
    JsonObject,
    World,
    at,
    commit_of,
    filters,
    fixed_fields,
    head,
    heads,
    open_task,
)
from pyoco_gateway.executions.index.list_query import ExecutionFilters, ListQuery, Order
from pyoco_gateway.executions.index.pages import page_of
from pyoco_protocol.executions.statuses import ExecutionStatus

Write = tuple[str, str, JsonObject]

writes = st.sampled_from(IDS).flatmap(
    lambda execution_id: st.tuples(
        st.sampled_from(("commit", "commit", "commit", "commit", "damage", "expire")),
        st.just(execution_id),
        heads(execution_id),
    )
)
strategies = st.sampled_from(("sort", "scan"))
orders = st.sampled_from(Order)
limits = st.integers(1, 4)
ALL = ExecutionFilters("acme")


def write(world: World, done: Write) -> None:
    kind, execution_id, new = done
    if kind == "commit":
        world.commit(execution_id, new)
    elif kind == "damage":
        world.damage(execution_id)
    else:
        world.expire(execution_id)


@given(strategies, st.lists(writes, max_size=20), filters(), orders, limits)
def test_a_walk_lists_each_matching_execution_once_and_in_order(
    strategy: str, done: list[Write], wanted: ExecutionFilters, order: Order, limit: int
) -> None:
    world = World(strategy)
    for each in done:
        write(world, each)

    items = world.walk(ListQuery(wanted, order, limit=limit))

    assert [item["executionId"] for item in items] == world.listed(wanted, order)
    for item in items:
        known = world.executions[item["executionId"]]
        assert item["seq"] == known.head["seq"]
        assert item["openNodes"] == [entry["id"] for entry in known.head["open"]]


@given(
    strategies,
    st.lists(st.lists(st.sampled_from(IDS) | writes, max_size=3), max_size=12),
    # Most filters match nothing for long.
    st.builds(ListQuery, st.just(ALL) | filters(), orders, limit=st.integers(1, 2)),
)
def test_a_walk_misses_no_execution_that_matches_from_its_beginning_to_its_end(
    strategy: str, later: list[list[str | Write]], query: ListQuery
) -> None:
    world = World(strategy)
    for execution_id in IDS:
        world.commit(execution_id, head(**fixed_fields(execution_id), updatedAt=at(12)))
    throughout = set(world.matching(query.filters))

    def between_pages() -> Iterator[None]:
        for page, some in enumerate(later):
            for each in some:
                if isinstance(each, tuple):
                    write(world, each)
                elif (known := world.executions.get(each)) is not None:
                    world.commit(each, {**known.head, "updatedAt": at(100 + page)})
                # A removed execution can come back, but it has not matched in the meantime.
                throughout.intersection_update(world.matching(query.filters))
            yield

    items = world.walk(query, between=between_pages())

    assert throughout <= {item["executionId"] for item in items}


@given(st.lists(writes, max_size=20))
def test_a_batch_has_the_same_outcome_as_its_commits_one_by_one(done: list[Write]) -> None:
    one_by_one, at_once = World(), World(in_batches=True)
    for kind, execution_id, new in done:
        for world in (one_by_one, at_once):
            write(world, ("damage" if kind == "damage" else "commit", execution_id, new))
    at_once.apply()

    assert contents(at_once) == contents(one_by_one)
    for world in (at_once, one_by_one):
        assert world.tables.size == len(world.executions)
        assert world.tables.revision == world.revision
    assert at_once.tables.unreadable == one_by_one.tables.unreadable


def contents(world: World) -> list[Any]:
    """Return all rows, without the order in which they were written."""
    return [
        sorted(world.tables.db.execute(query).fetchall(), key=repr)
        for query in (
            "SELECT * FROM executions",
            "SELECT * FROM labels",
            "SELECT * FROM open_nodes",
            "SELECT * FROM sources",
        )
    ]


@given(st.lists(writes, max_size=20))
def test_nothing_is_left_of_removed_executions(done: list[Write]) -> None:
    world = World()
    for each in done:
        write(world, each)
    for execution_id in list(world.executions):
        world.expire(execution_id)

    assert contents(world) == [[], [], [], []]
    assert world.tables.size == 0
    assert not any(world.tables.class_sizes.values())


def test_an_execution_that_changes_during_a_walk_is_listed_again_at_its_end() -> None:
    world = World()
    for number, execution_id in enumerate(("old", "middle", "new")):
        world.commit(execution_id, head(updatedAt=at(number)), tenant="acme")
    query = ListQuery(ALL, limit=1)

    first = page_of(world.tables, query, None)
    world.commit("old", head(updatedAt=at(9), seq=9), tenant="acme")
    second = page_of(world.tables, query, first.rest)
    third = page_of(world.tables, query, second.rest)

    pages = [json.loads(each.executions[0].item) for each in (first, second, third)]
    assert [(item["executionId"], item["seq"]) for item in pages] == [
        ("new", 5),
        ("middle", 5),
        ("old", 9),
    ]
    assert third.rest is None


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        ({"statuses": frozenset({ExecutionStatus.ACTIVE})}, {"status": "FAILED"}),
        ({"graph_id": "orders"}, {"graphId": "refunds"}),
        ({"graph_version": 1}, {"graphVersion": 2}),
        ({"graph_id": "orders", "graph_version": 1}, {"graphVersion": 2}),
        ({"labels": frozenset({"eu"})}, {"labels": ["rush"]}),
        ({"labels": frozenset({"eu", "rush"})}, {"labels": ["eu"]}),
        ({"labels": frozenset({"eu", "rush"})}, {"labels": ["rush"]}),
        ({"labels": frozenset({"eu"}), "graph_id": "orders"}, {"graphId": "refunds"}),
        ({"labels": frozenset({"eu"}), "graph_version": 1}, {"graphVersion": 2}),
        ({"is_cancel_requested": False}, {"cancelRequestedAt": at(0)}),
        ({"is_archived": False}, {"archivedAt": at(0)}),
        ({"created_after": BEGIN_MS}, {"createdAt": at(-1)}),
        ({"created_before": BEGIN_MS + 1}, {"createdAt": at(1)}),
    ],
)
@pytest.mark.parametrize("strategy", ["sort", "scan"])
@pytest.mark.parametrize("order", Order)
def test_one_difference_from_the_filters_keeps_an_execution_out_of_a_walk(
    wanted: JsonObject, other: JsonObject, strategy: str, order: Order
) -> None:
    world = World(strategy)
    matching = head(labels=["eu", "rush"])
    for number in range(3):
        world.commit(f"wanted-{number}", matching, tenant="acme")
    world.commit("other", {**matching, **other}, tenant="acme")

    def between_pages() -> Iterator[None]:
        world.commit("wanted-0", {**matching, "updatedAt": at(5)}, tenant="acme")
        world.commit("other", {**matching, **other, "updatedAt": at(5)}, tenant="acme")
        yield

    query = ListQuery(ExecutionFilters("acme", **wanted), order, limit=1)
    listed = world.walk(query, between=between_pages())

    assert {item["executionId"] for item in listed} == {"wanted-0", "wanted-1", "wanted-2"}


def test_a_walk_by_creation_is_not_changed_by_updates() -> None:
    world = World()
    for number, execution_id in enumerate(("old", "middle", "new")):
        world.commit(execution_id, head(createdAt=at(number)), tenant="acme")
    query = ListQuery(ALL, Order.CREATED, limit=1)

    first = page_of(world.tables, query, None)
    world.commit("new", head(createdAt=at(2), updatedAt=at(9)), tenant="acme")
    second = page_of(world.tables, query, first.rest)
    third = page_of(world.tables, query, second.rest)

    assert [json.loads(each.executions[0].item)["executionId"] for each in (second, third)] == [
        "middle",
        "old",
    ]
    assert third.rest is None


def test_only_the_last_known_commit_of_an_execution_may_be_forgotten() -> None:
    world = World()
    world.commit("id", head(), tenant="acme")
    world.commit("id", head(seq=6), tenant="acme")

    world.tables.remove("id", 1)
    assert world.tables.size == 1
    world.tables.remove("id", 2)
    assert world.tables.size == 0


def test_a_page_says_up_to_which_commit_its_reader_has_seen() -> None:
    world = World()
    for number in range(3):
        world.commit(f"id-{number}", head(), tenant="acme")
    query = ListQuery(ALL, limit=1)
    first = page_of(world.tables, query, None)
    world.commit("id-9", head(createdAt=at(9)), tenant="globex")
    second = page_of(world.tables, query, first.rest)

    assert first.rest is not None
    assert second.rest is not None
    assert (first.rest.seen, second.rest.seen) == (3, 4)
    # A gateway that is behind does not take this back.
    assert page_of(world.tables, query, replace(first.rest, seen=7)).rest == replace(
        second.rest, seen=7
    )


def test_a_new_execution_may_take_the_id_of_a_removed_one() -> None:
    world = World()
    world.commit("id", head(createdAt=at(0), labels=["eu"], graphId="orders"), tenant="acme")
    world.commit("id", head(createdAt=at(5), labels=["rush"], graphId="refunds"), tenant="acme")

    assert world.walk(ListQuery(replace(ALL, labels=frozenset({"eu"})))) == []
    (item,) = world.walk(ListQuery(replace(ALL, labels=frozenset({"rush"}), graph_id="refunds")))
    assert item["createdAt"] == at(5)
    assert world.tables.size == 1


@pytest.mark.parametrize(
    "damaged",
    [
        {"status": "PAUSED"},
        {"createdAt": "yesterday"},
        {"updatedAt": "2026-13-45T03:15:27.000Z"},
        {"graphVersion": 2**70},
        {"graphId": None},
        {"labels": "eu"},
        {"open": [{"id": "a"}]},
        {"open": [open_task(since="soon")]},
        {"counts": {"READY": -1}},
        {"nextTimerAt": 5},
    ],
)
def test_a_damaged_head_makes_only_its_execution_unreadable(damaged: JsonObject) -> None:
    world = World()
    world.commit("good", head(), tenant="acme")
    world.commit("bad", head(), tenant="acme")
    world.damage("bad", commit_of("bad", head(**damaged)).to_bytes())

    assert [item["executionId"] for item in world.walk(ListQuery(ALL))] == ["good"]
    assert (world.tables.size, world.tables.unreadable) == (1, 1)
    world.commit("bad", head(), tenant="acme")
    assert (world.tables.size, world.tables.unreadable) == (2, 0)


def test_half_a_character_makes_only_its_execution_unreadable() -> None:
    world = World()
    body = commit_of("bad", head(labels=["eu"])).to_bytes()
    world.damage("bad", body.replace(b'"eu"', b'"\\ud800"'))

    assert (world.tables.size, world.tables.unreadable) == (0, 1)


def test_a_node_that_is_twice_in_a_head_is_listed_once() -> None:
    world = World()
    world.commit("id", head(open=[open_task("a"), open_task("a", attempt=2)]), tenant="acme")
    world.commit("id", head(), tenant="acme")

    assert contents(world)[2:] == [[], []]


@pytest.mark.parametrize("wanted", [{}, {"graph_id": "orders"}, {"labels": frozenset({"eu"})}])
@pytest.mark.parametrize("order", Order)
def test_the_cost_of_a_page_does_not_grow_with_executions_that_do_not_match(
    wanted: JsonObject, order: Order
) -> None:
    """The index is read in the right place: rows that do not match are not even looked at."""
    world = World()
    matching = head(labels=["eu"], cancelRequestedAt=at(0))
    world.commit("wanted", matching, tenant="acme")
    query = ListQuery(replace(ALL, is_cancel_requested=True, **wanted), order)

    def steps() -> int:
        """Return the number of steps of SQLite's machine for a page."""
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        world.tables.db.set_progress_handler(step, 1)
        try:
            (item,) = world.walk(query)
        finally:
            world.tables.db.set_progress_handler(None, 0)
        assert item["executionId"] == "wanted"
        return count

    before = steps()
    for number in range(500):
        tenant = "acme" if number % 2 else "globex"
        # They are in front of the wanted one in either order.
        newer = head(labels=["eu"], createdAt=at(1 + number), updatedAt=at(1 + number))
        world.commit(f"other-{number}", newer, tenant=tenant)

    # A range may end at the next one instead of at the end of the index.
    assert steps() <= before + len(query.filters.classes)
