"""Runs end exactly once although their workers are killed, frozen or stopped."""

from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psutil
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

# Short for the tests, but long enough for two slow cores.
QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "3",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "1",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "1",
}


def executions(ledger: Path) -> list[tuple[str, str]]:
    """Return run id and attempt of each execution."""
    if not ledger.exists():
        return []
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return the path of a file that flows append to."""
    return tmp_path / "ledger.txt"


async def test_a_run_of_a_killed_worker_is_completed_by_another(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        params = {"ledger": str(ledger), "seconds": 2}
        async with stack.worker(flows=flows) as doomed:
            run_id = await stack.client.submit("ledger-nap", params=params)
            await eventually(lambda: executions(ledger), [(run_id, "1")])
            doomed.kill()
            async with stack.worker(flows=flows, worker_id="second"):
                ended = await stack.client.wait(run_id)
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("COMPLETED", 2, "second")
    assert executions(ledger) == [(run_id, "1"), (run_id, "2")]


async def test_a_run_of_a_lost_worker_is_taken_over_before_its_ack_wait_ends(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {**QUICK, "PYOCO_CONSUMER_ACK_WAIT_SEC": "600", "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "100"}
    async with Stack(tmp_path / "stack", env=env) as stack, stack.worker(flows=flows) as doomed:
        params = {"ledger": str(ledger), "seconds": 1}
        run_id = await stack.client.submit("ledger-nap", params=params)
        await eventually(lambda: executions(ledger), [(run_id, "1")])
        doomed.kill()
        async with stack.worker(flows=flows, worker_id="second"):
            ended = await stack.client.wait(run_id)
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("COMPLETED", 2, "second")


async def test_a_frozen_worker_is_fenced_when_it_resumes(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        params = {"ledger": str(ledger), "seconds": 1}
        async with stack.worker(flows=flows) as frozen:
            run_id = await stack.client.submit("nap-ledger", params=params)
            await eventually(lambda: stack.client.status(run_id), "RUNNING")
            children = frozen.children()
            frozen.pause()
            for child in children:
                child.suspend()
            async with stack.worker(flows=flows, worker_id="second"):
                ended = await stack.client.wait(run_id)
                frozen.resume()
                for child in children:
                    # The worker may already have killed the child.
                    with suppress(psutil.NoSuchProcess):
                        child.resume()
                await frozen.wait_for_log("left to another worker", 10)
                after = await stack.client.submit("noop")
                await stack.client.wait(after)
                again = await stack.client.get(run_id)
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("COMPLETED", 2, "second")
    assert again == ended
    # The resumed child may reach its second task before it is killed; there is no third attempt.
    assert {attempt for _, attempt in executions(ledger)} <= {"1", "2"}


@pytest.mark.parametrize("flow", ["busy", "greedy"])
async def test_a_flow_that_uses_all_cpu_time_is_delivered_once(
    tmp_path: Path, flows: str, ledger: Path, flow: str
) -> None:
    env = {**QUICK, "PYOCO_CONSUMER_ACK_WAIT_SEC": "2", "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.5"}
    async with (
        Stack(tmp_path / "stack", env=env) as stack,
        stack.worker(flows=flows),
        stack.worker(flows=flows),
    ):
        params = {"ledger": str(ledger), "seconds": 5}
        run_id = await stack.client.submit(flow, params=params)
        ended = await stack.client.wait(run_id, timeout=50)
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert executions(ledger) == [(run_id, "1")]


async def test_a_stopping_worker_lets_its_run_finish(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows) as worker:
        run_id = await stack.client.submit("nap", params={"seconds": 1})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        waiting = await stack.client.submit("noop")
        worker.terminate()
        assert await worker.wait() == 0
        ended = await stack.client.get(run_id)
        assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
        assert await stack.client.status(waiting) == "PENDING"


async def test_a_stopping_worker_gives_back_a_run_it_cannot_finish_in_time(
    stack: Stack, flows: str, ledger: Path
) -> None:
    params = {"ledger": str(ledger), "seconds": 1}
    async with stack.worker(flows=flows, arguments=["--drain-timeout-sec", "0.1"]) as leaving:
        run_id = await stack.client.submit("ledger-nap", params={**params, "seconds": 60})
        await eventually(lambda: executions(ledger), [(run_id, "1")])
        leaving.terminate()
        assert await leaving.wait() == 0
    async with stack.worker(flows=flows, worker_id="second"):
        await eventually(lambda: executions(ledger), [(run_id, "1"), (run_id, "2")])
        snapshot = await stack.client.get(run_id)
        await stack.client.cancel(run_id)
        assert (await stack.client.wait(run_id))["status"] == "CANCELLED"
    assert (snapshot["attempt"], snapshot["give_backs"], snapshot["worker_id"]) == (2, 1, "second")


async def test_a_second_signal_stops_the_worker_at_once(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows, arguments=["--drain-timeout-sec", "600"]) as worker:
        run_id = await stack.client.submit("deaf", params={"seconds": 600})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        worker.interrupt()
        await worker.wait_for_log("worker stopping", 10)
        worker.interrupt()
        assert await worker.wait() == 130


@pytest.mark.parametrize(
    ("place", "flow"),
    [
        (Failpoint.JOB_DELIVERED, "ledger"),
        (Failpoint.RUN_CLAIMED, "ledger"),
        (Failpoint.FLOW_OVER, "ledger"),
        (Failpoint.END_STORED, "ledger"),
        (Failpoint.END_STORED, "fail"),
        (Failpoint.LETTER_STORED, "fail"),
        (Failpoint.JOB_ACKED, "ledger"),
    ],
)
async def test_a_run_ends_once_wherever_its_worker_is_killed(
    tmp_path: Path, flows: str, ledger: Path, place: Failpoint, flow: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        failpoint = {"PYOCO_FAILPOINT": f"{place}:kill"}
        async with stack.worker(flows=flows, env=failpoint) as doomed:
            run_id = await stack.client.submit(flow, params={"ledger": str(ledger)})
            assert await doomed.wait() == -9
        async with stack.worker(flows=flows):
            ended = await stack.client.wait(run_id)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
            assert await stack.client.get(run_id) == ended
        letters = await stack.message_count("PYOCO_DLQ")
    assert ended["status"] == ("FAILED" if flow == "fail" else "COMPLETED")
    assert letters == (1 if flow == "fail" else 0)
    # Each attempt executes at most once.
    assert len(executions(ledger)) == len(set(executions(ledger)))


async def test_a_job_that_kills_its_worker_every_time_becomes_a_dead_letter(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {**QUICK, "PYOCO_CONSUMER_MAX_DELIVER": "2", "PYOCO_CONSUMER_ACK_WAIT_SEC": "2"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        poison = await stack.client.submit("poison", tag="poison")
        good = await stack.client.submit("noop")
        async with stack.worker(flows=flows):
            assert (await stack.client.wait(good))["status"] == "COMPLETED"
        for _ in range(2):
            async with stack.worker("poison", flows=flows) as doomed:
                assert await doomed.wait(20) == -9
        async with stack.worker("poison", flows=flows):
            ended = await stack.client.wait(poison)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
            assert await stack.message_count("PYOCO_DLQ") == 1
            after = await stack.client.submit("noop", tag="poison")
            assert (await stack.client.wait(after))["status"] == "COMPLETED"
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0116")


async def test_two_jobs_of_one_long_run_lead_to_one_attempt(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack, AsyncExitStack() as fleet:
        for _ in range(4):
            await fleet.enter_async_context(stack.worker(flows=flows))
        # Longer than AckWait, so that the second job is redelivered during the run.
        params = {"ledger": str(ledger), "seconds": 5}
        run_id = await stack.client.submit("ledger-nap", params=params)
        await stack.publish_job_again(run_id)
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
        assert await stack.client.get(run_id) == ended
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert executions(ledger) == [(run_id, "1")]


async def test_a_job_parked_by_a_foreign_consumer_becomes_a_dead_letter(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        # A consumer as an earlier server creates it: it stops after two deliveries.
        await stack.add_consumer("poison", max_deliver=2, ack_wait_sec=1)
        run_id = await stack.client.submit("poison", tag="poison")
        async with stack.worker("poison", flows=flows) as doomed:
            assert await doomed.wait(20) == -9
        async with stack.worker("poison", flows=flows):
            ended = await stack.client.wait(run_id)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
            assert await stack.message_count("PYOCO_DLQ") == 1
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0116")


async def test_the_gateway_removes_a_job_that_will_not_be_delivered_again(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        await stack.add_consumer("poison", max_deliver=1, ack_wait_sec=1)
        run_id = await stack.client.submit("poison", tag="poison")
        async with stack.worker("poison", flows=flows) as doomed:
            assert await doomed.wait(20) == -9
        # The only delivery was used; the job is not delivered again.
        async with stack.worker("poison", flows=flows):
            ended = await stack.client.wait(run_id, timeout=30)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 30)
    assert ended["status"] == "FAILED"
