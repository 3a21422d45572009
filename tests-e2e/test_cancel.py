"""A run whose cancel was answered with CANCELLING always ends CANCELLED."""

import random
import time
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

GRACE_SEC = 2.0
QUICK = {
    "PYOCO_CANCEL_GRACE_PERIOD_SEC": str(GRACE_SEC),
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "3",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "1",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "1",
}


@pytest.fixture
async def quick_stack(tmp_path: Path) -> Any:
    """Start a stack with a short grace period."""
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        yield stack


async def test_a_run_that_checks_for_a_cancel_is_cancelled(quick_stack: Stack, flows: str) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("nap", params={"seconds": 60})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        answer = await stack.client.http.post(f"/runs/{run_id}/cancel", json={"reason": "lunch"})
        assert answer.status_code == 200
        answered = answer.json()
        ended = await stack.client.wait(run_id, timeout=2)
    assert (answered["status"], answered["cancel_reason"]) == ("CANCELLING", "lunch")
    assert ended["status"] == "CANCELLED"
    assert ended["cancel_requested_at"] == answered["cancel_requested_at"]
    # Its only task returned normally after the cancel, which the engine counts as success.
    assert ended["late_outcome"] == "COMPLETED"


async def test_tasks_that_never_ran_are_cancelled_too(quick_stack: Stack, flows: str) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("nap-ledger", params={"seconds": 60, "ledger": "x"})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        await stack.client.cancel(run_id)
        ended = await stack.client.wait(run_id)
    assert ended["status"] == "CANCELLED"
    assert ended["tasks"] == {"nap": "SUCCEEDED", "ledger": "CANCELLED"}


async def test_a_run_that_ignores_a_cancel_is_killed_after_the_grace_period(
    quick_stack: Stack, flows: str
) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows) as worker:
        run_id = await stack.client.submit("deaf", params={"seconds": 600})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        await stack.client.cancel(run_id)
        ended = await stack.client.wait(run_id, timeout=GRACE_SEC + 5)
        after = await stack.client.wait(await stack.client.submit("noop"))
        assert worker.is_running
    assert (ended["status"], ended["tasks"]) == ("CANCELLED", {"deaf": "CANCELLED"})
    assert after["status"] == "COMPLETED"


async def test_a_pending_run_is_cancelled_without_a_worker(quick_stack: Stack, flows: str) -> None:
    stack = quick_stack
    run_id = await stack.client.submit("ledger", tag="unserved", params={"ledger": "x"})
    answered = await stack.client.cancel(run_id)
    ended = await stack.client.wait(run_id, timeout=2)
    assert (answered["status"], ended["status"]) == ("CANCELLING", "CANCELLED")
    async with stack.worker("unserved", flows=flows):
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
        assert await stack.client.get(run_id) == ended


async def test_a_run_whose_worker_is_dead_is_cancelled_by_the_gateway(
    quick_stack: Stack, flows: str
) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows) as doomed:
        run_id = await stack.client.submit("deaf", params={"seconds": 600})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        doomed.kill()
        assert (await stack.client.cancel(run_id))["status"] == "CANCELLING"
        ended = await stack.client.wait(run_id, timeout=GRACE_SEC + 5)
    assert ended["status"] == "CANCELLED"


async def test_a_frozen_worker_cannot_undo_a_cancel(quick_stack: Stack, flows: str) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows) as frozen:
        run_id = await stack.client.submit("nap", params={"seconds": 600})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        frozen.pause()
        await stack.client.cancel(run_id)
        ended = await stack.client.wait(run_id, timeout=GRACE_SEC + 5)
        frozen.resume()
        await frozen.wait_for_log("left to another worker", 10)
        assert await stack.client.get(run_id) == ended
    assert ended["status"] == "CANCELLED"


async def test_a_cancel_of_a_terminal_run_changes_nothing(quick_stack: Stack, flows: str) -> None:
    stack = quick_stack
    async with stack.worker(flows=flows):
        for flow in ("noop", "fail"):
            run_id = await stack.client.submit(flow)
            ended = await stack.client.wait(run_id)
            for _ in range(2):
                answered = await stack.client.cancel(run_id)
                assert answered["status"] == ended["status"]
            assert await stack.client.get(run_id) == ended


async def test_a_second_cancel_keeps_the_reason_of_the_first(quick_stack: Stack) -> None:
    stack = quick_stack
    run_id = await stack.client.submit("nap")
    first = await stack.client.http.post(f"/runs/{run_id}/cancel", json={"reason": "first"})
    second = await stack.client.http.post(f"/runs/{run_id}/cancel", json={"reason": "second"})
    assert first.json()["cancel_reason"] == second.json()["cancel_reason"] == "first"


async def test_a_cancel_wins_although_its_gateway_is_killed_after_recording_it(
    tmp_path: Path, flows: str
) -> None:
    env = {**QUICK, "PYOCO_FAILPOINT": "cancel-recorded:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        run_id = await stack.client.submit("nap", tag="unserved")
        with pytest.raises(httpx.TransportError):
            await stack.client.cancel(run_id)
        assert await stack.gateway.wait() == -9
        stack.gateway.set_env(QUICK)
        await stack.start_gateway()
        assert (await stack.client.wait(run_id, timeout=5))["status"] == "CANCELLED"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_cancel_is_lost_in_a_thousand_races(
    quick_stack: Stack, flows: str, seed: int
) -> None:
    stack = quick_stack
    random_source = random.Random(seed)
    answers: dict[str, str] = {}

    async def race(count: int) -> None:
        for _ in range(count):
            seconds = random_source.choice([0, 0, 0.005, 0.02, 0.1])
            run_id = await stack.client.submit("nap", params={"seconds": seconds})
            await anyio.sleep(random_source.uniform(0, 0.03))
            if random_source.random() < 0.2:
                await stack.publish_job_again(run_id)
            answers[run_id] = (await stack.client.cancel(run_id))["status"]

    async with (
        stack.worker(flows=flows, concurrency=2),
        stack.worker(flows=flows, concurrency=2) as doomed,
    ):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(race, 50)
            started = time.monotonic()
            await eventually(lambda: len(answers), lambda count: count > 100, 60)
            doomed.kill()
            doomed.start()
            assert time.monotonic() - started < 60
        ended = {run_id: await stack.client.wait(run_id, timeout=60) for run_id in answers}
    assert len(answers) == 500
    wrong = {
        run_id: (answers[run_id], run["status"])
        for run_id, run in ended.items()
        if run["status"] != ("CANCELLED" if answers[run_id] == "CANCELLING" else answers[run_id])
    }
    assert wrong == {}
    # Some cancels came in time and some too late, so the two really raced.
    assert {"CANCELLING", "COMPLETED"} <= set(answers.values())
