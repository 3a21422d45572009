"""Waits and ready Tasks on a real broker: prompts, approvers, long polls, very many open nodes."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from executions.index.indexed import Indexed, nodes_of
from pyoco_gateway.executions.index import execution_index
from pyoco_gateway.executions.index.tables import LoadedOpenNodes
from pyoco_gateway.executions.list_open_nodes import OpenNodeList
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.http.executions import OpenNodeItem
from pyoco_protocol.problems import BrokerUnavailableError, IndexNotReadyError, LogCorruptError
from pyoco_testkit.eventually import eventually
from stored_executions import ANN, ETL, StoredExecutions, line_of

BOB = Actor(kind=ActorKind.USER, id="bob")

TASK = line_of("{id: t, type: Task, retry: {maxAttempts: 3, backoff: {initialSec: 1}}}")
OTHER_TASK = line_of("{id: other, type: Task}")
WAIT = line_of(
    "{id: ok, type: Wait, wait: {key: po-7, approvals: 2, approvers: [ann, bob],"
    " prompt: {text: Ship it?}, timeoutSec: 3600}}"
)
WAIT_OF_OTHERS = line_of("{id: fine, type: Wait, wait: {approvers: [cho]}}")
WAIT_OF_ANYONE = line_of("{id: any, type: Wait, wait: {approvals: 1}}")


def many_tasks(groups: int = 2, each: int = 75) -> str:
    """Return a graph that runs more Tasks at once than a head can hold."""
    nodes = ["{id: start, type: Start}", "{id: all, type: Fork}", "{id: end, type: Join}"]
    nodes.append("{id: done, type: Success}")
    edges = ["{from: start, to: all}", "{from: end, to: done}"]
    for group in range(groups):
        fork, join = f"fork{group}", f"join{group}"
        nodes += [f"{{id: {fork}, type: Fork}}", f"{{id: {join}, type: Join}}"]
        edges += [f"{{from: all, to: {fork}}}", f"{{from: {join}, to: end}}"]
        for number in range(each):
            task = f"t{group}_{number}"
            nodes.append(f"{{id: {task}, type: Task}}")
            edges += [f"{{from: {fork}, to: {task}}}", f"{{from: {task}, to: {join}}}"]
    lines = "\n".join(f"  - {node}" for node in nodes)
    return f"nodes:\n{lines}\nedges: [{', '.join(edges)}]\n"


@pytest.fixture
async def waiting(indexed: Indexed) -> list[str]:
    """Executions that wait for ann and bob, for cho, and for anyone."""
    created = [await indexed.stored.create(each) for each in (WAIT, WAIT_OF_OTHERS, WAIT_OF_ANYONE)]
    await indexed.wrote(created[-1])
    return created


async def test_a_wait_is_listed_with_its_key_prompt_deadline_and_approvals(
    indexed: Indexed, waiting: list[str]
) -> None:
    execution_id = waiting[0]
    found = await indexed.waits()

    assert (nodes_of(found), found.next_cursor, found.total) == (["ok", "fine", "any"], None, 3)
    item = OpenNodeItem.model_validate_json(found.items[0])
    state = (await indexed.stored.state(execution_id)).state
    node = state.nodes["ok"]
    assert item.to_wire() == {
        "executionId": execution_id,
        "graphId": state.graph_id,
        "nodeId": "ok",
        "since": node.waiting_since,
        "attempt": 1,
        "waitKey": "po-7",
        "deadlineAt": node.deadline_at,
        "approvals": {"needed": 2, "given": 0},
        "prompt": {"text": "Ship it?"},
    }
    assert "prompt" not in json.loads(found.items[1])


async def test_an_approval_is_counted_and_the_last_one_ends_the_wait(
    indexed: Indexed, waiting: list[str]
) -> None:
    for given, (actor, nodes) in enumerate(
        ((ANN, ["ok", "fine", "any"]), (BOB, ["fine", "any"])), start=1
    ):
        command = cmd.RequestResumeNode(node_id="ok", resume_key="po-7")
        await indexed.stored.send(waiting[0], command, actor)
        await indexed.wrote(waiting[0])
        found = await indexed.waits()
        assert nodes_of(found) == nodes
        if given == 1:
            assert json.loads(found.items[0])["approvals"] == {"needed": 2, "given": 1}


@pytest.mark.parametrize(
    ("approver", "nodes"), [("ann", ["ok"]), ("bob", ["ok"]), ("cho", ["fine"]), ("dan", [])]
)
async def test_waits_are_found_by_an_approver_that_their_graph_names(
    indexed: Indexed, waiting: list[str], approver: str, nodes: list[str]
) -> None:
    assert waiting
    for _ in range(2):
        found = await indexed.waits(approver=approver)
        assert (nodes_of(found), found.total) == (nodes, len(nodes))


async def make_anew(indexed: Indexed, stream: str) -> None:
    """Delete a stream, and create it empty."""
    js = indexed.stored.broker.client.jetstream()
    config = (await js.stream_info(stream)).config
    await js.delete_stream(stream)
    await js.add_stream(config)


async def test_approvers_are_those_of_the_graphs_after_the_streams_were_made_anew(
    indexed: Indexed,
) -> None:
    """The first version of a graph is then another one, for example after a restore."""
    stored = indexed.stored

    async def listed(approver: str) -> list[str] | None:
        try:
            return nodes_of(await indexed.waits(approver=approver))
        except IndexNotReadyError:
            return None

    await indexed.wrote(await stored.create(WAIT, graph_id="g"))
    assert await listed("bob") == ["ok"]
    for stream in (stored.names.graph_stream, stored.names.execution_stream):
        await make_anew(indexed, stream)
    await stored.create(WAIT.replace("ann, bob", "ann, cho"), graph_id="g")
    await eventually(partial(listed, "cho"), ["ok"])
    assert await listed("bob") == []


async def test_a_wait_without_its_graph_does_not_hide_the_others(indexed: Indexed) -> None:
    stored = indexed.stored
    await stored.create(WAIT)
    await make_anew(indexed, stored.names.graph_stream)
    await indexed.wrote(
        await stored.create(line_of("{id: ship, type: Wait, wait: {approvers: [ann]}}"))
    )

    assert nodes_of(await indexed.waits(approver="ann")) == ["ship"]
    assert nodes_of(await indexed.waits()) == ["ok", "ship"]


async def test_waits_are_found_by_graph_and_page_by_page(indexed: Indexed) -> None:
    stored = indexed.stored
    created = [await stored.create(WAIT) for _ in range(5)]
    await stored.create(WAIT_OF_OTHERS)
    last = await stored.create(WAIT_OF_ANYONE)
    await indexed.wrote(last)
    graph_id = (await stored.state(created[0])).state.graph_id
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        found = await indexed.waits(graphId=graph_id, approver="ann", limit=2, **cursor)
        assert found.total == 5
        listed += [json.loads(item)["executionId"] for item in found.items]
        if found.next_cursor is None:
            break
        cursor = {"cursor": found.next_cursor}

    assert listed == created


async def test_a_failed_attempt_is_ready_again_when_it_may_be_retried(indexed: Indexed) -> None:
    stored = indexed.stored
    execution_id = await stored.create(TASK)
    await stored.send(execution_id, cmd.StartNode(node_id="t"), ETL)
    await stored.send(execution_id, cmd.FailNode(node_id="t"), ETL)
    await indexed.wrote(execution_id)

    assert (await indexed.ready_tasks()).total == 0
    # A wait does not ask again and again: it knows when the retry is due.
    started = time.monotonic()
    found = await indexed.ready_tasks(waitSec=20)
    assert 0.5 < time.monotonic() - started < 10
    assert json.loads(found.items[0])["attempt"] == 2
    assert found.total == 1


@asynccontextmanager
async def polling(indexed: Indexed, **query: Any) -> AsyncGenerator[list[OpenNodeList]]:
    """Give the answers to a request for ready Tasks, which is sent once."""
    answers: list[OpenNodeList] = []

    async def poll() -> None:
        answers.append(await indexed.ready_tasks(**query))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await eventually(lambda: len(indexed.index._ready_listeners), 1)
        yield answers
        tasks.cancel_scope.cancel()


async def test_a_long_poll_is_answered_by_the_first_task_of_any_gateway(indexed: Indexed) -> None:
    other_gateway = StoredExecutions(indexed.stored.broker)
    async with polling(indexed, waitSec=30) as answers:
        execution_id = await other_gateway.create(TASK)
        await eventually(lambda: len(answers), 1)
    assert json.loads(answers[0].items[0])["executionId"] == execution_id
    assert not indexed.index._ready_listeners


async def test_a_long_poll_does_not_end_with_tasks_of_other_graphs_and_tenants(
    indexed: Indexed,
) -> None:
    stored = indexed.stored
    graph_id = (await stored.state(await stored.create(TASK, start=False))).state.graph_id
    async with polling(indexed, waitSec=30, graphId=graph_id) as answers:
        await stored.create(TASK, tenant="acme")
        other = await stored.create(OTHER_TASK)
        await indexed.wrote(other)
        assert (await indexed.ready_tasks()).total == 1
        assert not answers
        wanted = await stored.create(TASK)
        await eventually(lambda: len(answers), 1)
    assert [json.loads(item)["executionId"] for item in answers[0].items] == [wanted]


async def test_a_long_poll_ends_empty_after_its_time(indexed: Indexed) -> None:
    started = time.monotonic()
    found = await indexed.ready_tasks(waitSec=1)
    assert 1 <= time.monotonic() - started < 5
    assert (found.items, found.next_cursor, found.total) == ([], None, 0)


async def test_an_execution_with_more_open_nodes_than_its_head_is_listed_in_full(
    indexed: Indexed,
) -> None:
    stored = indexed.stored
    execution_id = await stored.create(many_tasks())
    await indexed.wrote(execution_id)

    found = await indexed.ready_tasks(limit=200)

    assert (len(found.items), found.total) == (150, 150)
    for number, left in ((0, 149), (74, 148)):
        await stored.send(execution_id, cmd.StartNode(node_id=f"t1_{number}"), ETL)
        await indexed.wrote(execution_id)
        assert (await indexed.ready_tasks()).total == left


async def test_open_nodes_are_loaded_again_after_an_outage_but_not_from_a_damaged_log(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(execution_index, "_RETRY_SEC", 0.01)
    load = indexed.index._load_open
    failures = [
        BrokerUnavailableError("away"),
        BrokerUnavailableError("away"),
        LogCorruptError("id", 1, "damaged"),
    ]

    async def failing(execution_id: str) -> LoadedOpenNodes:
        if failures:
            raise failures.pop(0)
        return await load(execution_id)

    indexed.index._load_open = failing
    first = await indexed.stored.create(many_tasks())
    await indexed.wrote(first)
    assert (await indexed.ready_tasks()).total == 100
    assert "open nodes not loaded" in caplog.text
    second = await indexed.stored.create(many_tasks())
    await indexed.wrote(second)
    assert (await indexed.ready_tasks()).total == 250


async def test_a_prompt_belongs_to_the_wait_that_is_listed_with_it(indexed: Indexed) -> None:
    """The cached state may be behind the index, if commits between were missed."""
    stored, other = indexed.stored, StoredExecutions(indexed.stored.broker)
    execution_id = await stored.create(TASK)
    await stored.send(execution_id, cmd.StartNode(node_id="t"), ETL)
    behind = [await stored.state(execution_id)]
    await other.send(execution_id, cmd.PutNodeWaiting(node_id="t", prompt={"n": 1}), ETL)
    behind.append(await other.state(execution_id))
    await other.send(execution_id, cmd.ResumeNode(node_id="t"), ETL)
    behind.append(await other.state(execution_id))
    await other.send(execution_id, cmd.PutNodeWaiting(node_id="t", prompt={"n": 2}), ETL)
    await indexed.wrote(execution_id)

    for state in behind:
        stored.cache.drop(execution_id)
        stored.cache.put(state)
        (item,) = (await indexed.waits()).items
        assert json.loads(item)["prompt"] == {"n": 2}
