"""Lists of waits and ready Tasks, and the numbers for metrics, compared with a simple model."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.index.index_model import (
    BEGIN_MS,
    IDS,
    TENANTS,
    JsonObject,
    World,
    at,
    head,
    heads,
    open_queries_of_tenants,
    open_task,
    open_wait,
    times,
    using_strategy,
)
from pyoco_gateway.executions.index.heads import unix_ms
from pyoco_gateway.executions.index.levels import (
    EndedExecution,
    OverdueExecution,
    due_before,
    ended_before,
    levels,
    number_ended_before,
)
from pyoco_gateway.executions.index.list_query import OpenList, OpenNodeQuery
from pyoco_gateway.executions.index.open_nodes import GraphOfNodes, ReadyGraph
from pyoco_gateway.executions.index.open_queries import (
    FIRST_PLACE,
    approval_sources,
    next_retry,
    oldest,
    total,
)
from pyoco_gateway.executions.index.tables import LoadedOpenNodes
from pyoco_protocol.executions.statuses import ExecutionStatus

commits = st.lists(
    st.sampled_from(IDS).flatmap(lambda each: st.tuples(st.just(each), heads(each))), max_size=16
)
clocks = times.map(lambda value: BEGIN_MS + value)
WAITS = OpenNodeQuery(OpenList.WAITS, "acme")
READY = OpenNodeQuery(OpenList.READY_TASKS, "acme")


def world_of(done: list[tuple[str, JsonObject]]) -> World:
    world = World()
    for execution_id, new in done:
        world.commit(execution_id, new)
    return world


def walk(
    world: World, query: OpenNodeQuery, now_ms: int, sources: list[int] | None = None
) -> list[JsonObject]:
    items: list[JsonObject] = []
    after = FIRST_PLACE
    while True:
        page = oldest(world.tables, query, after, now_ms, query.limit, sources=sources)
        items += [json.loads(node.item) for node in page]
        if len(page) < query.limit:
            return items
        after = page[-1].position


@given(commits, open_queries_of_tenants, clocks)
def test_a_walk_lists_each_open_node_once_and_the_oldest_first(
    done: list[tuple[str, JsonObject]], query: OpenNodeQuery, now_ms: int
) -> None:
    world = world_of(done)

    items = walk(world, query, now_ms)

    expected = world.open_nodes(query, now_ms)
    assert [(item["executionId"], item["nodeId"]) for item in items] == [
        (node.execution_id, node.entry["id"]) for node in expected
    ]
    assert total(world.tables, query, now_ms) == len(expected)
    for item, node in zip(items, expected, strict=True):
        assert unix_ms(item["since"]) == node.since
        assert item["graphId"] == node.known.head["graphId"]
        assert item.get("approvals") == node.entry.get("approvals")
        is_wait = query.open_list is OpenList.WAITS
        assert item["attempt"] == node.entry["attempt"] + (not is_wait)


@given(commits, st.sampled_from(TENANTS), clocks, st.sampled_from(("sort", "scan")), st.data())
def test_a_walk_of_some_sources_lists_their_waits_only(
    done: list[tuple[str, JsonObject]],
    tenant: str,
    now_ms: int,
    strategy: str,
    data: st.DataObject,
) -> None:
    world = world_of(done)
    sources = approval_sources(world.tables, tenant, None)
    chosen = data.draw(st.lists(st.sampled_from(sources), unique=True) if sources else st.just([]))
    query = OpenNodeQuery(OpenList.WAITS, tenant, limit=2)

    with using_strategy(strategy):
        items = walk(world, query, now_ms, [source.number for source in chosen])

    places = {(source.graph_id, source.version, source.node_id) for source in chosen}
    expected = [
        node
        for node in world.open_nodes(query, now_ms)
        if "approvals" in node.entry
        and (node.known.head["graphId"], node.known.head["graphVersion"], node.entry["id"])
        in places
    ]
    assert [(item["executionId"], item["nodeId"]) for item in items] == [
        (node.execution_id, node.entry["id"]) for node in expected
    ]
    numbers = [source.number for source in chosen]
    assert total(world.tables, query, now_ms, sources=numbers) == len(expected)


@given(commits, open_queries_of_tenants, clocks)
def test_the_next_retry_is_the_earliest_one_that_is_not_due(
    done: list[tuple[str, JsonObject]], query: OpenNodeQuery, now_ms: int
) -> None:
    world = world_of(done)
    query = replace(query, open_list=OpenList.READY_TASKS)
    later = world.open_nodes(query, now_ms=2**60)
    not_due = [node.since for node in later if "retryAt" in node.entry and node.since > now_ms]

    assert next_retry(world.tables, query, now_ms) == min(not_due, default=None)


@given(commits, st.sampled_from((None, *TENANTS)), clocks)
def test_the_numbers_for_metrics_are_those_of_the_model(
    done: list[tuple[str, JsonObject]], tenant: str | None, now_ms: int
) -> None:
    world = world_of(done)

    found = levels(world.tables, tenant, now_ms)

    tenants = TENANTS if tenant is None else (tenant,)
    waits = [
        node
        for each in tenants
        for node in world.open_nodes(replace(WAITS, tenant_id=each), now_ms)
    ]
    ready = [
        node
        for each in tenants
        for node in world.open_nodes(replace(READY, tenant_id=each), now_ms)
    ]
    counted = world.statuses(tenant)
    assert found.by_status == {status: counted[status.value] for status in ExecutionStatus}
    assert found.open_waits == len(waits)
    oldest_ms = min((node.since for node in ready), default=now_ms)
    assert found.oldest_ready_task_sec == max(now_ms - oldest_ms, 0) / 1000


@given(commits, clocks, st.integers(1, 3))
def test_executions_are_found_by_their_timers_and_by_their_ends(
    done: list[tuple[str, JsonObject]], now_ms: int, limit: int
) -> None:
    world = world_of(done)

    def earlier(name: str) -> list[int]:
        times = [known.head.get(name) for known in world.executions.values()]
        return sorted(ms for each in times if each is not None and (ms := unix_ms(each)) < now_ms)

    due: list[OverdueExecution] = []
    while page := due_before(world.tables, now_ms, due[-1] if due else None, limit):
        assert len(page) <= limit
        due += page
    ended: list[EndedExecution] = []
    while found := ended_before(world.tables, now_ms, ended[-1] if ended else None, limit):
        assert len(found) <= limit
        ended += found

    heads = {each: known.head for each, known in world.executions.items()}
    due_times = [unix_ms(heads[each.execution_id]["nextTimerAt"]) for each in due]
    assert due_times == earlier("nextTimerAt") == [each.due_ms for each in due]
    assert len({each.execution_id for each in due}) == len(due)
    ended_times = [unix_ms(heads[each.execution_id]["endedAt"]) for each in ended]
    assert ended_times == earlier("endedAt") == [each.ended_ms for each in ended]
    assert len({each.execution_id for each in ended}) == len(ended)
    assert all(each.revision == world.executions[each.execution_id].revision for each in ended)
    assert number_ended_before(world.tables, now_ms) == len(earlier("endedAt"))


@pytest.mark.parametrize(
    ("entry", "is_ready", "is_waiting"),
    [
        (open_task(), True, False),
        (open_task(kind="run"), False, False),
        (open_task(status="RUNNING", attempt=1), False, False),
        (open_task(status="RUNNING", attempt=1, retryAt=at(5)), True, False),
        (open_task(status="RUNNING", attempt=1, retryAt=at(6)), False, False),
        (open_task(kind="run", status="RUNNING", attempt=1, retryAt=at(5)), False, False),
        (open_task(status="WAITING", attempt=1), False, True),
        (open_wait(), False, True),
        (open_wait(status="RUNNING"), False, False),
    ],
)
def test_waits_wait_and_only_external_tasks_are_ready(
    entry: JsonObject, is_ready: bool, is_waiting: bool
) -> None:
    world = World()
    world.commit("id", head(open=[entry]), tenant="acme")
    now_ms = BEGIN_MS + 5

    assert total(world.tables, READY, now_ms) == len(walk(world, READY, now_ms)) == is_ready
    assert total(world.tables, WAITS, now_ms) == len(walk(world, WAITS, now_ms)) == is_waiting


def test_a_node_is_listed_with_what_its_head_says_of_it() -> None:
    world = World()
    wait = open_wait(
        waitKey="po-7", deadlineAt=at(60_000), approvals={"needed": 2, "given": 1}, since=at(3)
    )
    task = open_task("ship", status="RUNNING", attempt=2, retryAt=at(4))
    world.commit("id", head(open=[wait, task]), tenant="acme")

    assert walk(world, WAITS, BEGIN_MS + 9) == [
        {
            "executionId": "id",
            "graphId": "orders",
            "nodeId": "w",
            "since": at(3),
            "attempt": 1,
            "waitKey": "po-7",
            "deadlineAt": at(60_000),
            "approvals": {"needed": 2, "given": 1},
        }
    ]
    assert walk(world, READY, BEGIN_MS + 9) == [
        {"executionId": "id", "graphId": "orders", "nodeId": "ship", "since": at(4), "attempt": 3}
    ]


def test_a_batch_names_the_graphs_with_new_ready_tasks() -> None:
    world = World()
    world.commit("id", head(open=[open_task()]), tenant="acme")
    assert world.applied[-1].ready == {ReadyGraph("acme", "orders")}
    world.applied.clear()

    world.commit("id", head(seq=6, open=[open_task()]), tenant="acme")
    world.commit("id", head(seq=7, open=[open_wait()]), tenant="acme")

    assert world.applied == []


def test_loaded_open_nodes_replace_those_of_the_head() -> None:
    world = World()
    world.commit("id", head(open=[open_task()], openMore=True), tenant="acme")
    (asked,) = [applied for applied in world.applied if applied.open_more]
    assert asked.open_more == {"id": 1}
    graph = GraphOfNodes("acme", "orders", 1)

    entries = [open_task(f"t{number}") for number in range(150)]
    world.tables.apply_loaded(LoadedOpenNodes("id", 1, graph, entries))

    assert total(world.tables, READY, BEGIN_MS) == 150
    # The next commit has the last word.
    world.commit("id", head(open=[open_task()]), tenant="acme")
    world.tables.apply_loaded(LoadedOpenNodes("id", 1, graph, entries))
    assert total(world.tables, READY, BEGIN_MS) == 1


def test_the_cost_of_a_page_does_not_grow_with_the_open_nodes_of_others() -> None:
    world = World()
    world.commit("wanted", head(open=[open_task(), open_wait()]), tenant="acme")
    queries = [
        replace(each, graph_id=graph) for each in (WAITS, READY) for graph in (None, "orders")
    ]

    def steps() -> int:
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        world.tables.db.set_progress_handler(step, 1)
        for query in queries:
            oldest(world.tables, query, FIRST_PLACE, BEGIN_MS, 50)
            total(world.tables, query, BEGIN_MS)
            next_retry(world.tables, query, BEGIN_MS)
        world.tables.db.set_progress_handler(None, 0)
        return count

    before = steps()
    for number in range(300):
        older = head(open=[open_task(since=at(0)), open_wait(since=at(0))])
        world.commit(f"other-{number}", older, tenant="globex")
    assert steps() <= before + 3 * len(queries)
