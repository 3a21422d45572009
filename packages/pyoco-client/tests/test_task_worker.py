"""Task workers against recorded answers of a gateway."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from execution_answers import (
    AT,
    EXECUTION_ID,
    GET,
    PATH,
    answer,
    node,
    problem,
    rejection,
    view,
)
from pyoco_client import (
    AccessDeniedError,
    AsyncClient,
    AsyncTask,
    AsyncTaskWorker,
    Client,
    Task,
    TaskCancelledError,
    TaskWorker,
)
from pyoco_testkit.recorded_gateway import RecordedGateway

READY = "GET /ready-tasks"
START = f"POST {PATH}/nodes/ship/start"
PROGRESS = f"POST {PATH}/nodes/ship/progress"
SUCCESS = f"POST {PATH}/nodes/ship/success"
FAIL = f"POST {PATH}/nodes/ship/fail"
MINE = {"attempt": 2, "workerId": "w"}

Work = Callable[[Task], Any]


def ready(*node_ids: str, cursor: str | None = None) -> dict[str, Any]:
    items = [
        {"executionId": EXECUTION_ID, "graphId": "g", "nodeId": each, "since": AT, "attempt": 2}
        for each in node_ids
    ]
    return {"items": items, "nextCursor": cursor, "total": len(items)}


@pytest.fixture
def one_task(gateway: RecordedGateway) -> None:
    """Answer with one task that is ready, and accept its claim and each report."""
    gateway.answer(READY, 200, ready("ship"))
    gateway.answer(READY, 200, ready())
    gateway.answer(START, 202, answer("StartNode"))
    done = node("fetch", "SUCCEEDED", output={"rows": 7})
    running = node("ship", "RUNNING", attempt=2, workerId="w")
    gateway.answer(GET, 200, view(input={"orderId": "1"}, nodes=[done, running]))


def run(
    gateway: RecordedGateway, work: Work, *, deadline: float = 20.0, **options: Any
) -> list[Task]:
    """Run a worker until it has executed one task; return the tasks."""
    tasks: list[Task] = []

    def once(task: Task) -> Any:
        tasks.append(task)
        worker.stop()
        return work(task)

    with Client(gateway.url, deadline=deadline) as client:
        worker = TaskWorker(client, once, **{"worker_id": "w", **options})
        worker.run()
    return tasks


def sent(gateway: RecordedGateway, route: str) -> list[Any]:
    """Return the bodies of the requests to a route."""
    method, path = route.split()
    return [
        json.loads(each.body)
        for each in gateway.requests
        if (each.method, each.target.partition("?")[0]) == (method, path)
    ]


@pytest.mark.usefixtures("one_task")
def test_a_task_is_claimed_executed_and_reported(gateway: RecordedGateway) -> None:
    gateway.answer(PROGRESS, 202, answer("ReportNodeProgress"))
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))

    def work(task: Task) -> dict[str, Any]:
        task.progress(40, "half", metrics={"rows": 1})
        return {"order": task.input["orderId"], "rows": task.output_of("fetch")["rows"]}

    (task,) = run(gateway, work, graph_id="g")
    assert (task.execution_id, task.node_id, task.attempt) == (EXECUTION_ID, "ship", 2)
    assert task.output_of("other") is None
    assert not task.cancelled
    assert "graphId=g" in gateway.requests[0].target
    assert "waitSec=" in gateway.requests[0].target
    assert sent(gateway, START) == [MINE]
    assert sent(gateway, PROGRESS) == [
        {"progress": 40, "message": "half", "metrics": {"rows": 1}, **MINE}
    ]
    assert sent(gateway, SUCCESS) == [{"output": {"order": "1", "rows": 7}, **MINE}]


@pytest.mark.usefixtures("one_task")
def test_a_task_may_return_nothing(gateway: RecordedGateway) -> None:
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    run(gateway, lambda task: None)
    assert sent(gateway, SUCCESS) == [MINE]


class OutOfStockError(Exception):
    """A failure that another attempt does not change."""

    retryable = False


@pytest.mark.parametrize(
    ("error", "report"),
    [
        (KeyError("a"), {"error": {"code": "KeyError", "message": "'a'"}}),
        (
            OutOfStockError("no \ud800 left"),
            {
                "error": {"code": "OutOfStockError", "message": "no \\ud800 left"},
                "retryable": False,
            },
        ),
        (ValueError("x" * 3000), {"error": {"code": "ValueError", "message": "x" * 2000}}),
        (SystemExit(3), {"error": {"code": "SystemExit", "message": "3"}}),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.usefixtures("one_task")
def test_an_exception_is_the_failure_of_the_attempt(
    gateway: RecordedGateway, error: BaseException, report: dict[str, Any]
) -> None:
    gateway.answer(FAIL, 202, answer("FailNode"))

    def work(_: Task) -> None:
        raise error

    run(gateway, work)
    assert sent(gateway, FAIL) == [{**report, **MINE}]
    assert sent(gateway, SUCCESS) == []


@pytest.mark.parametrize(
    ("output", "code"),
    [([1], "TypeError"), ({"a": object()}, "TypeError"), ({"a": float("nan")}, "ValueError")],
)
@pytest.mark.usefixtures("one_task")
def test_an_output_that_is_no_json_object_fails_the_attempt(
    gateway: RecordedGateway, output: object, code: str
) -> None:
    gateway.answer(FAIL, 202, answer("FailNode"))
    run(gateway, lambda task: output)
    (report,) = sent(gateway, FAIL)
    assert report["error"]["code"] == code


@pytest.mark.usefixtures("one_task")
def test_an_output_that_the_gateway_refuses_fails_the_attempt_for_good(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(SUCCESS, 413, problem("PAYLOAD_TOO_LARGE", "0101"))
    gateway.answer(FAIL, 202, answer("FailNode"))
    run(gateway, lambda task: {"text": "x"})
    (report,) = sent(gateway, FAIL)
    error = {"code": "PAYLOAD_TOO_LARGE", "message": "ERR-PYOCO-0101: m; d; hint: h"}
    assert (report["error"], report["retryable"]) == (error, False)


def test_a_claim_is_repeated_with_its_key_until_it_is_answered(gateway: RecordedGateway) -> None:
    gateway.answer(READY, 200, ready("ship"))
    gateway.answer(START, 503, problem("OUTCOME_UNKNOWN", "0159"))
    gateway.answer(START, 200, answer("StartNode"))
    gateway.answer(GET, 200, view())
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    # A claim is worth more time than other calls: nothing else would execute the task.
    assert len(run(gateway, lambda task: None, deadline=0)) == 1
    claims = [each for each in gateway.requests if each.target.endswith("/start")]
    assert len(claims) == 2
    assert len({each.headers["X-Idempotency-Key"] for each in claims}) == 1


@pytest.mark.usefixtures("one_task")
def test_a_report_is_repeated_with_its_key_until_it_is_answered(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(SUCCESS, 503, problem("OUTCOME_UNKNOWN", "0159"))
    gateway.answer(SUCCESS, hang_up=True)
    gateway.answer(SUCCESS, 200, answer("SucceedNode"))
    # A report is worth more time than other calls: nothing else ends the attempt.
    run(gateway, lambda task: {}, deadline=0)
    reports = [each for each in gateway.requests if each.target.endswith("/success")]
    assert len(reports) == 3
    assert len({each.headers["X-Idempotency-Key"] for each in reports}) == 1


@pytest.mark.usefixtures("one_task")
def test_progress_after_a_cancel_stops_the_task(gateway: RecordedGateway) -> None:
    gateway.answer(PROGRESS, 409, rejection("EXECUTION_CANCEL_REQUESTED"))
    gateway.answer(FAIL, 409, rejection("EXECUTION_CANCEL_REQUESTED", recorded=True))

    def work(task: Task) -> None:
        with pytest.raises(TaskCancelledError):
            task.progress(10)
        assert task.cancelled
        assert not task.is_current()
        # The worker knows it already and asks no more.
        task.progress(20)

    (task,) = run(gateway, work)
    assert task.cancel_reason == "EXECUTION_CANCEL_REQUESTED"
    assert len(sent(gateway, PROGRESS)) == 1
    # The gateway recognises by this code that the attempt has stopped.
    (report,) = sent(gateway, FAIL)
    assert (report["error"]["code"], report["retryable"]) == ("RUN_CANCELED", False)


@pytest.mark.usefixtures("one_task")
def test_a_result_after_a_cancel_is_still_reported_once(
    gateway: RecordedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.answer(PROGRESS, 409, rejection("NODE_CANCEL_REQUESTED"))
    gateway.answer(SUCCESS, 409, rejection("NODE_CANCEL_REQUESTED", recorded=True))

    def work(task: Task) -> dict[str, Any]:
        with pytest.raises(TaskCancelledError):
            task.progress(10)
        return {"late": True}

    with caplog.at_level(logging.INFO):
        run(gateway, work)
    assert sent(gateway, SUCCESS) == [{"output": {"late": True}, **MINE}]
    assert sent(gateway, FAIL) == []
    (record,) = [each for each in caplog.records if each.message == "result came too late"]
    assert vars(record)["recorded"] is True


@pytest.mark.usefixtures("one_task")
def test_progress_is_sent_once_a_second_and_dropped_during_an_outage(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(PROGRESS, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))

    def work(task: Task) -> None:
        for percent in range(50):
            task.progress(percent)

    run(gateway, work)
    assert len(sent(gateway, PROGRESS)) == 1
    assert len(sent(gateway, SUCCESS)) == 1


@pytest.mark.usefixtures("one_task")
def test_a_task_learns_its_state_from_the_gateway(gateway: RecordedGateway) -> None:
    running = node("ship", "RUNNING", attempt=2, workerId="w")
    gateway.answer(GET, 200, view(nodes=[running]))
    gateway.answer(GET, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(GET, 200, view(nodes=[{**running, "attempt": 3}]))
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    found: list[bool] = []
    run(gateway, lambda task: found.extend(task.is_current() for _ in range(3)))
    # Without an answer the last known state counts.
    assert found == [True, True, False]


def test_a_task_that_another_worker_has_is_not_executed(gateway: RecordedGateway) -> None:
    gateway.answer(READY, 200, ready("taken", "same-id", "ship"))
    gateway.answer(READY, 200, ready())
    taken = rejection("NODE_ALREADY_STARTED")
    gateway.answer(f"POST {PATH}/nodes/taken/start", 409, taken)
    # The attempt was started before by a process with the same worker id.
    same = answer("StartNode", effect="NONE")
    gateway.answer(f"POST {PATH}/nodes/same-id/start", 200, same)
    gateway.answer(START, 202, answer("StartNode"))
    gateway.answer(GET, 200, view())
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    assert [task.node_id for task in run(gateway, lambda task: None)] == ["ship"]


def test_a_worker_takes_only_the_nodes_it_was_given(gateway: RecordedGateway) -> None:
    gateway.answer(READY, 200, ready("other", cursor="c"))
    gateway.answer(READY, 200, ready("ship"))
    gateway.answer(START, 202, answer("StartNode"))
    gateway.answer(GET, 200, view())
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    assert len(run(gateway, lambda task: None, nodes="ship")) == 1
    # Only the first page waits for tasks.
    assert "waitSec" not in gateway.requests[1].target
    assert not any("/nodes/other/" in each.target for each in gateway.requests)


def test_a_worker_waits_before_it_asks_again_for_what_it_cannot_take(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(READY, 200, ready("other"))
    with Client(gateway.url) as client:
        worker = TaskWorker(client, lambda task: None, nodes=["ship"])
        thread = threading.Thread(target=worker.run)
        thread.start()
        thread.join(0.5)
        worker.stop()
        thread.join(20)
    assert len(gateway.requests) == 1


def test_tasks_are_executed_at_once_up_to_the_concurrency(gateway: RecordedGateway) -> None:
    names = ["a", "b", "c"]
    gateway.answer(READY, 200, ready(*names))
    gateway.answer(READY, 200, ready("c"))
    for name in names:
        gateway.answer(f"POST {PATH}/nodes/{name}/start", 202, answer("StartNode"))
        gateway.answer(f"POST {PATH}/nodes/{name}/success", 202, answer("SucceedNode"))
    gateway.answer(GET, 200, view())
    at_once = threading.Barrier(2, timeout=20)
    done: list[str] = []

    def work(task: Task) -> None:
        if task.node_id != "c":
            # Passed only if both are executed at the same time.
            at_once.wait()
        else:
            worker.stop()
        done.append(task.node_id)

    with Client(gateway.url) as client:
        worker = TaskWorker(client, work, concurrency=2)
        worker.run()
    assert sorted(done[:2]) == ["a", "b"]
    assert done[2] == "c"


@pytest.mark.usefixtures("one_task")
def test_a_stopped_worker_finishes_the_task_in_work(gateway: RecordedGateway) -> None:
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    begun, may_end = threading.Event(), threading.Event()

    def work(_: Task) -> None:
        begun.set()
        assert may_end.wait(20)

    with Client(gateway.url) as client:
        worker = TaskWorker(client, work)
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert begun.wait(20)
        worker.stop()
        thread.join(0.3)
        assert thread.is_alive()
        may_end.set()
        thread.join(20)
        assert not thread.is_alive()
    assert len(sent(gateway, SUCCESS)) == 1


def test_a_worker_outlives_an_outage(gateway: RecordedGateway) -> None:
    gateway.answer(READY, 503, problem("INDEX_NOT_READY", "0162"), headers={"Retry-After": "60"})
    gateway.answer(READY, 200, ready("ship"))
    gateway.answer(START, 202, answer("StartNode"))
    gateway.answer(GET, 200, view())
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    assert len(run(gateway, lambda task: None)) == 1


def test_a_refusal_ends_the_worker_after_its_task_is_reported(gateway: RecordedGateway) -> None:
    gateway.answer(READY, 200, ready("ship"))
    gateway.answer(READY, 401, problem("UNAUTHENTICATED", "0015"))
    gateway.answer(START, 202, answer("StartNode"))
    gateway.answer(GET, 200, view())
    gateway.answer(SUCCESS, 202, answer("SucceedNode"))
    with Client(gateway.url) as client:
        worker = TaskWorker(client, lambda task: None, concurrency=2)
        with pytest.raises(AccessDeniedError):
            worker.run()
    assert len(sent(gateway, SUCCESS)) == 1


def test_a_worker_needs_room_for_a_task() -> None:
    with Client() as client, pytest.raises(ValueError, match="concurrency"):
        TaskWorker(client, lambda task: None, concurrency=0)


async def test_the_async_worker_executes_tasks_at_once(gateway: RecordedGateway) -> None:
    names = ["a", "b"]
    gateway.answer(READY, 200, ready(*names))
    gateway.answer(READY, 200, ready())
    gateway.answer(f"POST {PATH}/nodes/a/start", 202, answer("StartNode"))
    gateway.answer(f"POST {PATH}/nodes/b/start", 202, answer("StartNode"))
    gateway.answer(f"POST {PATH}/nodes/a/success", 202, answer("SucceedNode"))
    gateway.answer(f"POST {PATH}/nodes/b/fail", 202, answer("FailNode"))
    gateway.answer(GET, 200, view())
    begun = {name: anyio.Event() for name in names}

    async def work(task: AsyncTask) -> dict[str, Any]:
        begun[task.node_id].set()
        for event in begun.values():
            await event.wait()
        worker.stop()
        if task.node_id == "b":
            raise OutOfStockError
        return {"name": task.node_id}

    async with AsyncClient(gateway.url) as client:
        worker = AsyncTaskWorker(client, work, concurrency=2)
        with anyio.fail_after(20):
            await worker.run()
    (report,) = sent(gateway, f"POST {PATH}/nodes/a/success")
    assert report["output"] == {"name": "a"}
    assert len(sent(gateway, f"POST {PATH}/nodes/b/fail")) == 1
