"""Lists of executions on a real broker: own commits, cursors, tenants, and the log behind them."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from executions.index.index_model import commit_of, head
from executions.index.indexed import Indexed, JsonObject, indexing, pairs_of
from pyoco_gateway.executions.index.heads import head_in, list_item
from pyoco_gateway.executions.index.list_query import (
    Order,
    parse_execution_query,
    parse_ready_query,
)
from pyoco_gateway.executions.index.pages import Walk
from pyoco_gateway.executions.index.queries import FIRST_PLACE
from pyoco_gateway.index import list_reader
from pyoco_gateway.index.signed_cursors import SignedCursors
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.commits import commit_from
from pyoco_protocol.http.executions import ExecutionItem
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import IndexNotReadyError, InvalidRequestError
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually
from stored_executions import ETL, StoredExecutions, line_of

TWO = line_of("{id: a, type: Task}", "{id: b, type: Wait}")
WAIT = line_of("{id: ok, type: Wait, wait: {approvers: [ann, bob]}}")
# All that brings an execution of `TWO` to its end.
COMMANDS = (
    cmd.StartExecution(),
    cmd.StartNode(node_id="a"),
    cmd.SucceedNode(node_id="a"),
    cmd.ResumeNode(node_id="b"),
    cmd.ArchiveExecution(),
)


async def test_lists_show_each_commit_of_this_gateway_at_once(indexed: Indexed) -> None:
    execution_id = await indexed.stored.create(TWO, labels=("eu",))
    for command, open_nodes in (
        (cmd.StartNode(node_id="a"), ["a"]),
        (cmd.SucceedNode(node_id="a"), ["b"]),
        (cmd.ResumeNode(node_id="b"), []),
    ):
        await indexed.stored.send(execution_id, command, ETL)
        await indexed.wrote(execution_id)
        (item,) = await indexed.executions()
        logged = await indexed.stored.state(execution_id)
        assert (item["seq"], item["openNodes"]) == (logged.state.seq, open_nodes)
        assert ExecutionItem.model_validate(item).to_wire() == item
    assert await indexed.ids(status="COMPLETED", label="eu") == [execution_id]


async def test_the_index_has_the_last_heads_of_the_log_also_after_a_rebuild(
    indexed: Indexed,
) -> None:
    stored = indexed.stored
    ids = [await stored.create(TWO, tenant=f"t{number % 2}", start=False) for number in range(6)]
    for commands, execution_id in enumerate(ids):
        for command in COMMANDS[:commands]:
            await stored.send(execution_id, command, ETL)
    heads = {}
    for execution_id in ids:
        last = await stored.log.last(execution_id)
        assert last is not None
        heads[execution_id] = commit_from(last.body).head
        indexed.index.on_own_write(last.stream_seq)

    async def listed(running: Indexed) -> dict[str, JsonObject]:
        return {
            item["executionId"]: item
            for tenant in ("t0", "t1")
            for item in await running.executions(tenant, archived="any")
        }

    followed = await listed(indexed)
    async with indexing(StoredExecutions(stored.broker)) as rebuilt:
        assert await listed(rebuilt) == followed
        assert await rows(rebuilt) == await rows(indexed)
    assert followed.keys() == heads.keys()
    for execution_id, last_head in heads.items():
        parsed = head_in(last_head)
        assert parsed is not None
        assert followed[execution_id] == json.loads(list_item(execution_id, parsed))


async def rows(indexed: Indexed) -> list[Any]:
    """Return all rows of the index, without the order in which they were written."""
    return await indexed.index.query(
        lambda tables: [
            sorted(tables.db.execute(query).fetchall(), key=repr)
            for query in (
                "SELECT * FROM executions",
                "SELECT * FROM labels",
                "SELECT * FROM open_nodes",
                "SELECT * FROM sources",
            )
        ]
    )


async def test_a_walk_with_writers_misses_no_execution(indexed: Indexed) -> None:
    stored = indexed.stored
    ids = [await stored.create(TWO) for _ in range(12)]
    await indexed.wrote(ids[-1])
    finished: set[str] = set()

    async def finish(execution_id: str) -> None:
        for command in COMMANDS[1:]:
            await stored.send(execution_id, command, ETL)
        finished.add(execution_id)

    walks: dict[str, list[str]] = {}

    async def walk(order: str) -> None:
        walks[order] = await indexed.ids(order=order, archived="any", limit=1)

    async with anyio.create_task_group() as tasks:
        for execution_id in ids:
            tasks.start_soon(finish, execution_id)
        for order in ("updated", "created"):
            tasks.start_soon(walk, order)

    assert finished == set(ids)
    for order in ("updated", "created"):
        assert set(walks[order]) == set(ids)
    assert len(walks["created"]) == len(ids)


async def test_another_tenant_sees_nothing(indexed: Indexed) -> None:
    execution_id = await indexed.stored.create(TWO, tenant="acme", labels=("eu",))
    other_id = await indexed.stored.create(WAIT, tenant="acme")
    await indexed.wrote(other_id)

    assert set(await indexed.ids("acme")) == {execution_id, other_id}
    graph_id = (await indexed.executions("acme", label="eu"))[0]["graphId"]
    for query in ({}, {"label": "eu"}, {"graphId": graph_id}, {"archived": "any"}):
        assert await indexed.ids("globex", **query) == []
    for found in (
        await indexed.waits("globex"),
        await indexed.waits("globex", graphId=graph_id),
        await indexed.waits("globex", approver="ann"),
        await indexed.ready_tasks("globex"),
        await indexed.ready_tasks("globex", graphId=graph_id),
    ):
        assert (found.items, found.next_cursor, found.total) == ([], None, 0)


@pytest.mark.parametrize("is_of_nodes", [False, True])
async def test_a_cursor_is_bound_to_its_list_filters_and_tenant(
    indexed: Indexed, is_of_nodes: bool
) -> None:
    created = [await indexed.stored.create(TWO) for _ in range(3)]
    await indexed.wrote(created[-1])
    services = indexed.services

    async def page(tenant: str, **query: str) -> str | None:
        pairs = pairs_of(query)
        if is_of_nodes:
            nodes = await services.open_nodes(parse_ready_query(pairs, tenant))
            return nodes.next_cursor
        return (await services.executions(parse_execution_query(pairs, tenant))).next_cursor

    cursor = await page("default", limit="1")
    assert cursor is not None
    assert await page("default", cursor=cursor, limit="2") is None
    for tenant, query in (
        ("globex", {"cursor": cursor}),
        ("default", {"cursor": cursor[:-1] + ("A" if cursor[-1] != "A" else "B")}),
        ("default", {"cursor": "nonsense"}),
        ("default", {"cursor": cursor, "graphId": "orders"}),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            await page(tenant, **query)
        assert [name for name, _ in refused.value.faults] == ["cursor"]
    # The other list.
    other = services.executions if is_of_nodes else services.open_nodes
    parse = parse_execution_query if is_of_nodes else parse_ready_query
    with pytest.raises(InvalidRequestError):
        await other(parse([("cursor", cursor)], "default"))  # type: ignore[arg-type]


async def test_a_cursor_is_bound_to_its_order(indexed: Indexed) -> None:
    created = [await indexed.stored.create(TWO) for _ in range(2)]
    await indexed.wrote(created[-1])
    executions = indexed.services.executions
    pairs = [("limit", "1"), ("order", "created")]
    cursor = (await executions(parse_execution_query(pairs, "default"))).next_cursor
    assert cursor is not None

    # Without an order, a cursor implies its own.
    found = await executions(parse_execution_query([("cursor", cursor)], "default"))
    assert len(found.items) == 1
    query = parse_execution_query([("cursor", cursor), ("order", "updated")], "default")
    with pytest.raises(InvalidRequestError, match="another order"):
        await executions(query)


async def test_a_cursor_ahead_of_the_stream_is_refused(indexed: Indexed) -> None:
    """A stream restored from a backup continues with lower sequences."""
    created = (await indexed.stored.log.info()).created
    cursors = SignedCursors(indexed.stored.names.execution_stream, created, "default")
    query = parse_execution_query([], "default")
    ahead = Walk(Order.UPDATED, None, 10, seen=1000)
    cursor = cursors.write(ahead.values(), query.filters.fingerprint)

    with pytest.raises(InvalidRequestError, match="restored"):
        await indexed.services.executions(replace(query, cursor=cursor))


async def test_a_cursor_of_a_gateway_that_is_ahead_waits_for_the_index(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await indexed.stored.create(TWO)
    await indexed.wrote(first)
    assert await indexed.ids() == [first]
    held: list[Entry] = []
    deliver = indexed.feed.on_entry
    monkeypatch.setattr(indexed.feed, "on_entry", held.append)
    second = await indexed.stored.create(TWO)
    await eventually(lambda: len(held), 1)
    created = (await indexed.stored.log.info()).created
    query = parse_execution_query([], "default")
    # The other gateway has listed nothing yet, but it knows both executions.
    ahead = Walk(Order.UPDATED, FIRST_PLACE, 1, seen=held[0].revision)
    cursors = SignedCursors(indexed.stored.names.execution_stream, created, "default")
    query = replace(query, cursor=cursors.write(ahead.values(), query.filters.fingerprint))

    with pytest.raises(IndexNotReadyError):
        await indexed.services.executions(query)
    deliver(held[0])
    found = await indexed.services.executions(query)

    assert {json.loads(item)["executionId"] for item in found.items} == {first, second}


async def test_lists_are_refused_until_the_index_has_all_executions(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_reader, "_BUILD_WAIT_SEC", 0.05)
    indexed = Indexed(stored)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexed.index.run)
        with pytest.raises(IndexNotReadyError):
            await indexed.executions()
        with pytest.raises(IndexNotReadyError):
            await indexed.waits()
        tasks.cancel_scope.cancel()


async def test_a_purged_execution_leaves_the_lists(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with indexing(await without_protection(broker)) as indexed:
        ids = [await indexed.stored.create(TWO) for _ in range(4)]
        # There are more messages than executions.
        await indexed.stored.send(ids[0], cmd.StartNode(node_id="a"))
        await indexed.wrote(ids[0])
        await indexed.purge_check.check()
        assert set(await indexed.ids()) == set(ids)

        await purge(indexed.stored, ids[1])
        await indexed.purge_check.check()
        await eventually(lambda: listed_or_not(indexed), set(ids) - {ids[1]})
    assert caplog.text.count("vanished from the stream") == 1


async def test_a_purge_after_the_retention_does_not_rebuild_the_index(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with indexing(await without_protection(broker), retention_sec=1) as indexed:
        ids = [await indexed.stored.create(TWO) for _ in range(2)]
        await indexed.stored.send(ids[0], cmd.StartNode(node_id="a"))
        await indexed.stored.send(ids[0], cmd.SucceedNode(node_id="a"))
        await indexed.stored.send(ids[0], cmd.ResumeNode(node_id="b"))
        await indexed.wrote(ids[0])
        assert set(await indexed.ids()) == set(ids)
        # Another gateway is earlier.
        await purge(indexed.stored, ids[0])

        await indexed.purge_check.check()

        assert "vanished from the stream" not in caplog.text
        (ended,) = await indexed.index.ended_before("2999-01-01T00:00:00.000Z", None, 10)
        await indexed.index.forget(ended)
        assert await indexed.ids() == [ids[1]]


async def test_the_index_is_built_anew_with_the_stream(broker: Broker) -> None:
    async with indexing(await without_protection(broker)) as indexed:
        before = await indexed.stored.create(TWO)
        await eventually(lambda: listed_or_not(indexed), {before})
        await broker.client.jetstream().delete_stream("OTHER")
        await without_protection(broker)
        after = await indexed.stored.create(TWO)
        await eventually(lambda: listed_or_not(indexed), {after})
    assert indexed.index.size == 1


async def listed_or_not(indexed: Indexed) -> set[str] | None:
    try:
        return set(await indexed.ids())
    except IndexNotReadyError:
        # It reads the stream again.
        return None


async def without_protection(broker: Broker) -> StoredExecutions:
    """Return a gateway of another stream, which permits purges."""
    names = Names(execution_stream="OTHER", execution_prefix="other.exec")
    await broker.client.jetstream().add_stream(
        name="OTHER", subjects=[names.execution("*")], allow_direct=True
    )
    return StoredExecutions(broker, names=names)


async def purge(stored: StoredExecutions, execution_id: str) -> None:
    last = await stored.log.last(execution_id)
    assert last is not None
    assert await stored.log.purge(execution_id, last.stream_seq)


async def test_commits_that_cannot_be_read_are_counted_and_harm_no_other_execution(
    indexed: Indexed,
) -> None:
    stored = indexed.stored
    good = await stored.create(TWO)
    js = stored.broker.client.jetstream()
    record = commit_of("another", head())
    for execution_id, body in (
        ("damaged", b"not JSON"),
        ("stranger", record.to_bytes()),
        ("newer", commit_of("newer", head()).to_bytes().replace(b'"v":1', b'"v":2')),
    ):
        await js.publish(stored.names.execution(execution_id), body)

    await eventually(lambda: indexed.index.unreadable, 3)
    assert (indexed.feed.unreadable, indexed.feed.too_new) == (2, 1)
    assert await indexed.ids() == [good]


async def test_overdue_executions_are_found_for_the_sweep(indexed: Indexed) -> None:
    timed = line_of("{id: a, type: Task, timeoutSec: 60}")
    overdue, later = await indexed.stored.create(timed), await indexed.stored.create(timed)
    await indexed.stored.send(overdue, cmd.StartNode(node_id="a"))
    await indexed.wrote(overdue)
    await indexed.ids()

    (found,) = await indexed.index.due_before("2999-01-01T00:00:00.000Z", None, 10)
    assert found.execution_id == overdue
    assert await indexed.index.due_before("2999-01-01T00:00:00.000Z", found, 10) == []
    assert await indexed.index.due_before("2026-01-01T00:00:00.000Z", None, 10) == []
    assert later in await indexed.ids()
