"""Executions by the SDK, the task worker and the command line, against a complete server."""

import hashlib
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from pyoco_client import (
    AsyncClient,
    AsyncExecutionHandle,
    AsyncTask,
    AsyncTaskWorker,
    Client,
    CommandRejectedError,
    ExecutionNotFoundError,
    ExecutionStatus,
    GraphInvalidError,
    IdempotencyConflictError,
    InputInvalidError,
    NodeStatus,
    SeqNotReachedError,
    Task,
    TaskCancelledError,
    TaskWorker,
    VersionMismatchError,
)
from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

ORDER_FILE: Final = Path(__file__).parent / "flows" / "order-intake.yaml"
TWO_TASKS: Final = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {"id": "fork", "type": "Fork"},
        {"id": "a", "type": "Task"},
        {"id": "b", "type": "Task"},
        {"id": "join", "type": "Join"},
        {"id": "done", "type": "Success"},
    ],
    "edges": [
        {"from": "start", "to": "fork"},
        {"from": "fork", "to": "a"},
        {"from": "fork", "to": "b"},
        {"from": "a", "to": "join"},
        {"from": "b", "to": "join"},
        {"from": "join", "to": "done"},
    ],
}
APPROVAL: Final = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {
            "id": "ok",
            "type": "Wait",
            "wait": {"key": "po-7", "approvals": 2, "approvers": ["ann", "bob", "cho"]},
        },
        {"id": "done", "type": "Success"},
    ],
    "edges": [{"from": "start", "to": "ok"}, {"from": "ok", "to": "done"}],
}


@pytest.fixture
async def client(stack: Stack) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(stack.url) as client:
        # The gateway builds its lists after the start.
        await client.graphs.put("order-intake", ORDER_FILE)
        await client.executions.list()
        yield client


@asynccontextmanager
async def working(
    client: AsyncClient, function: Any, **options: Any
) -> AsyncGenerator[AsyncTaskWorker]:
    """Run a task worker; end it with the context, whether or not it waits for tasks."""
    worker = AsyncTaskWorker(client, function, **options)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        try:
            yield worker
        finally:
            group.cancel_scope.cancel()


async def status_of(handle: AsyncExecutionHandle, node_id: str) -> str | None:
    node = (await handle.get()).node(node_id)
    return None if node is None else node.status.value


async def test_an_order_is_fetched_approved_and_shipped(client: AsyncClient) -> None:
    async def work(task: AsyncTask) -> dict[str, Any]:
        assert task.input == {"orderId": 4711}
        await task.progress(50, task.node_id)
        if task.node_id == "fetch" and task.attempt == 1:
            raise ConnectionError("the shop does not answer")
        return {"lines": 3} if task.node_id == "fetch" else {"sent": task.output_of("fetch")}

    async with working(client, work, graph_id="order-intake"):
        handle = await client.executions.create("order-intake", {"orderId": 4711}, labels=["vip"])
        await eventually(lambda: status_of(handle, "payment"), "WAITING")
        (wait,) = await eventually(
            lambda: client.waits.list(graph_id="order-intake"), lambda found: len(found) == 1
        )
        assert (wait.wait_key, wait.prompt) == ("order-4711", {"text": "Ship 3 lines?"})
        with pytest.raises(CommandRejectedError) as refused:
            await handle.node("payment").resume(resume_key="order-1")
        assert refused.value.reason == "RESUME_KEY_MISMATCH"
        assert refused.value.node_status == "WAITING"
        await client.waits.approve(handle.id, "payment", {"amount": 12})
        ended = await handle.wait(20, include_values=True)
    assert ended.status is ExecutionStatus.COMPLETED
    assert ended.result == {"ship": {"sent": {"lines": 3}}}
    fetch, payment, rejected = (ended.node(name) for name in ("fetch", "payment", "rejected"))
    assert fetch is not None
    assert payment is not None
    assert rejected is not None
    assert (fetch.attempt, payment.output) == (2, {"amount": 12})
    assert (rejected.status, rejected.skipped) == (NodeStatus.CANCELED, True)


async def test_the_same_key_makes_one_execution(client: AsyncClient) -> None:
    first = await client.executions.create("order-intake", {"orderId": 1}, idempotency_key="k")
    again = await client.executions.create("order-intake", {"orderId": 1}, idempotency_key="k")
    assert (again.id, again.is_replay, first.is_replay) == (first.id, True, False)
    other = await client.executions.create("order-intake", {"orderId": 1})
    assert other.id != first.id
    with pytest.raises(IdempotencyConflictError):
        await client.executions.create("order-intake", {"orderId": 2}, idempotency_key="k")


async def test_refusals_have_their_classes_and_explain_themselves(client: AsyncClient) -> None:
    with pytest.raises(InputInvalidError) as invalid:
        await client.executions.create("order-intake", {})
    assert invalid.value.problems[0]["where"] == "input.orderId"
    assert invalid.value.hint
    with pytest.raises(GraphInvalidError) as graph:
        await client.graphs.put("bad", {"nodes": [], "edges": []})
    assert {problem["where"] for problem in graph.value.problems} == {"nodes", "edges"}
    with pytest.raises(VersionMismatchError) as mismatch:
        await client.graphs.put("order-intake", ORDER_FILE, if_match=7)
    assert mismatch.value.latest == 1
    handle = await client.executions.create("order-intake", {"orderId": 1}, start=False)
    with pytest.raises(CommandRejectedError) as rejected:
        await handle.archive()
    assert rejected.value.reason == "EXECUTION_NOT_TERMINAL"
    with pytest.raises(SeqNotReachedError):
        await handle.get(min_seq=1000, wait_sec=0)
    with pytest.raises(ExecutionNotFoundError):
        await client.executions.get("00000000-0000-4000-8000-000000000000")


async def test_a_graph_has_versions(client: AsyncClient) -> None:
    assert not (await client.graphs.put("order-intake", ORDER_FILE)).is_new
    text = ORDER_FILE.read_text(encoding="utf-8").replace("Order intake", "Orders")
    assert (await client.graphs.put("order-intake", text, if_match=1)).version == 2
    assert [item.version async for item in client.graphs.versions("order-intake")] == [2, 1]
    assert (await client.graphs.get("order-intake")).title == "Orders"
    assert (await client.graphs.get("order-intake", 1)).document["title"] == "Order intake"
    await client.graphs.put("another", TWO_TASKS)
    assert [item.graph_id async for item in client.graphs.iter()] == ["another", "order-intake"]


async def test_executions_are_found_by_their_filters(client: AsyncClient) -> None:
    made = [
        await client.executions.create("order-intake", {"orderId": n}, labels=[f"n{n % 2}"])
        for n in range(4)
    ]
    await made[0].cancel(reason="test")
    await made[0].wait(20)
    await made[0].archive()

    async def found(**filters: Any) -> list[str]:
        return sorted([item.execution_id async for item in client.executions.iter(**filters)])

    alive = sorted(handle.id for handle in made[1:])
    await eventually(found, alive)
    assert await found(label="n1") == sorted([made[1].id, made[3].id])
    assert await found(archived=True) == [made[0].id]
    assert await found(archived="any", status="CANCELED", cancel_requested=True) == [made[0].id]
    assert await found(graph_id="other") == []
    created = (await made[2].get()).created_at
    assert made[1].id not in await found(created_after=created)
    assert len(await client.executions.list(limit=2)) == 2


async def test_the_log_is_complete_and_its_hash_chain_can_be_checked(client: AsyncClient) -> None:
    handle = await client.executions.create("order-intake", {"orderId": 1})
    await handle.cancel(reason="no")
    ended = await handle.wait(20)
    events = [event async for event in handle.events()]
    assert [event.seq for event in events] == list(range(1, ended.seq + 1))
    canceled = [event async for event in handle.events(types="NODE_CANCELED", node_id="ship")]
    assert [event.payload["reason"] for event in canceled] == ["EXECUTION_CANCELED"]
    checked = await handle.verify()
    assert (checked.valid, checked.events, checked.commits) == (True, ended.seq, 2)
    first, second = await handle.commit(1), await handle.commit(2)
    assert json.loads(second)["prevHash"] == hashlib.sha256(first).hexdigest()
    assert ended.last_hash == hashlib.sha256(second).hexdigest()
    assert (await handle.get(at_seq=1)).started_at is None


async def test_a_watch_survives_a_restart_of_the_gateway_without_a_gap(
    stack: Stack, client: AsyncClient
) -> None:
    handle = await client.executions.create("order-intake", {"orderId": 1})
    seen: list[int] = []
    begun = anyio.Event()

    async def watch() -> None:
        async for change in handle.watch():
            if change.kind == "event":
                seen.append(change.seq)
            else:
                begun.set()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        with anyio.fail_after(30):
            await begun.wait()
            first = (await handle.get()).seq
            await handle.node("fetch").start(attempt=1, worker_id="w")
            await stack.gateway.stop()
            await stack.start_gateway()
            await handle.node("fetch").progress(10)
            await handle.cancel()
            with pytest.raises(CommandRejectedError) as late:
                await handle.node("fetch").fail("RUN_CANCELED", attempt=1)
            assert late.value.is_recorded
    assert seen == list(range(first + 1, (await handle.get()).seq + 1))


async def test_a_cancelled_task_learns_it_and_its_late_result_is_kept(
    client: AsyncClient,
) -> None:
    cancelled = anyio.Event()
    begun = anyio.Event()
    learned: list[str | None] = []

    async def work(task: AsyncTask) -> dict[str, Any]:
        assert await task.is_current()
        begun.set()
        await cancelled.wait()
        with pytest.raises(TaskCancelledError):
            await task.progress(90)
        learned.append(task.cancel_reason)
        assert task.cancelled
        return {"lines": 1}

    async with working(client, work):
        handle = await client.executions.create("order-intake", {"orderId": 1})
        with anyio.fail_after(20):
            await begun.wait()
        assert (await handle.cancel(reason="enough")).effect == "APPLIED"
        assert (await handle.cancel()).effect == "NONE"
        cancelled.set()
        ended = await handle.wait(20, include_values=True)
    assert ended.status is ExecutionStatus.CANCELED
    assert learned == ["EXECUTION_CANCEL_REQUESTED"]
    fetch = ended.node("fetch")
    assert fetch is not None
    assert fetch.late_outcome == "SUCCEEDED"
    assert fetch.late_result is not None
    assert fetch.late_result["output"] == {"lines": 1}


async def test_a_task_that_stops_after_a_cancel_ends_as_stopped(client: AsyncClient) -> None:
    begun = anyio.Event()

    async def work(task: AsyncTask) -> None:
        begun.set()
        while True:
            await task.progress()
            await anyio.sleep(0.05)

    async with working(client, work):
        handle = await client.executions.create("order-intake", {"orderId": 1})
        with anyio.fail_after(20):
            await begun.wait()
        await handle.cancel()
        # Long before the time at which the gateway would give up the attempt.
        ended = await handle.wait(8)
    fetch = ended.node("fetch")
    assert fetch is not None
    assert (ended.status, fetch.late_outcome) == (ExecutionStatus.CANCELED, "STOPPED")


async def test_an_attempt_that_was_given_up_is_stale(client: AsyncClient) -> None:
    handle = await client.executions.create("order-intake", {"orderId": 1})
    taken: list[int] = []
    given_up, learned = anyio.Event(), anyio.Event()

    async def work(task: AsyncTask) -> dict[str, Any]:
        taken.append(task.attempt)
        if task.attempt == 1:
            await handle.node("fetch").fail("GIVEN_UP")
            given_up.set()
            assert not await task.is_current()
            assert task.cancel_reason == "STALE_ATTEMPT"
            learned.set()
        return {"lines": 0}

    async with working(client, work, nodes=["fetch"]):
        ended = await handle.wait(20)
    assert given_up.is_set()
    assert learned.is_set()
    assert taken == [1, 2]
    # The result of the first attempt did not count; the second one found nothing to ship.
    assert (ended.status, ended.failed_node_id) == (ExecutionStatus.FAILED, "rejected")


async def test_many_workers_execute_each_task_once(stack: Stack) -> None:
    made, executed = await anyio.to_thread.run_sync(_executed_by_threads, stack.url)
    assert sorted(executed) == sorted((each, name) for each in made for name in "ab")


def _executed_by_threads(url: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Run executions with three task workers; return their ids and the tasks that were executed."""
    executed: list[tuple[str, str]] = []

    def work(task: Task) -> dict[str, Any]:
        executed.append((task.execution_id, task.node_id))
        return {}

    with Client(url) as client:
        client.graphs.put("two-tasks", TWO_TASKS)
        workers = [TaskWorker(client, work, concurrency=2) for _ in range(3)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            handles = [client.executions.create("two-tasks") for _ in range(10)]
            ended = [handle.wait(30) for handle in handles]
        finally:
            for worker in workers:
                worker.stop()
            for thread in threads:
                thread.join(30)
    assert {each.status for each in ended} == {ExecutionStatus.COMPLETED}
    return [handle.id for handle in handles], executed


# It starts a process for each key, also on a machine with other work.
@pytest.mark.timeout(120)
async def test_a_wait_needs_two_of_its_approvers() -> None:
    async with ApiKeyStack() as stack:
        keys = {
            name: await stack.admin(
                *("api-key", "create", "--tenant", "acme", "--name", name),
                *("--scope", "executions:read", "--scope", "executions:resume"),
            )
            for name in ("ann", "bob", "dan")
        }
        owner_key = await stack.issue_key("executions:read", "executions:write", "graphs:write")
        async with AsyncClient(stack.url, api_key=owner_key) as owner:
            await eventually(lambda: _put(owner, "approval", APPROVAL), 1)
            handle = await owner.executions.create("approval")

            async def approve(name: str, **options: Any) -> str:
                async with AsyncClient(stack.url, api_key=keys[name]) as client:
                    return (await client.waits.approve(handle.id, "ok", **options)).effect

            assert await approve("ann", comment="fine") == "APPLIED"
            assert await approve("ann") == "NONE"
            with pytest.raises(CommandRejectedError) as outsider:
                await approve("dan")
            assert outsider.value.reason == "NOT_AN_APPROVER"
            with pytest.raises(CommandRejectedError) as direct:
                await handle.node("ok").resume(resume_key="po-7")
            assert direct.value.reason == "APPROVALS_REQUIRED"
            (wait,) = await eventually(
                lambda: owner.waits.list(approver="bob"), lambda found: len(found) == 1
            )
            assert wait.approvals is not None
            assert (wait.approvals.given, wait.approvals.needed) == (1, 2)
            assert await approve("bob") == "APPLIED"
            assert (await handle.wait(20)).status is ExecutionStatus.COMPLETED


async def _put(client: AsyncClient, graph_id: str, document: dict[str, Any]) -> int:
    return (await client.graphs.put(graph_id, document)).version
