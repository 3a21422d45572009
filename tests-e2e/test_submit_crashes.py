"""Gateways and brokers that go down in the middle of a submission: the run is there once."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Give a file that flows add a line to."""
    return tmp_path / "ledger.txt"


def executions(ledger: Path) -> list[str]:
    """Return the runs that were executed."""
    if not ledger.exists():
        return []
    return [line.split()[0] for line in ledger.read_text(encoding="utf-8").splitlines()]


async def submit(stack: Stack, ledger: Path, key: str | None = "order-7") -> httpx.Response:
    body: dict[str, Any] = {"flow_name": "ledger", "params": {"ledger": str(ledger)}}
    headers = {} if key is None else {"X-Idempotency-Key": key}
    return await stack.client.http.post("/runs", json=body, headers=headers)


async def strike(stack: Stack, ledger: Path) -> None:
    """Have the gateway die over a submission, and another one started."""
    with pytest.raises(httpx.TransportError):
        await submit(stack, ledger)
    assert await stack.gateway.wait() == -9
    stack.gateway.set_env({})
    await stack.start_gateway()


@pytest.mark.parametrize("place", [Failpoint.SUBMIT_CREATED, Failpoint.SUBMIT_PUBLISHED])
@pytest.mark.parametrize("broker_too", [False, True])
async def test_a_gateway_killed_over_a_submission_is_asked_again(
    tmp_path: Path, flows: str, ledger: Path, place: Failpoint, broker_too: bool
) -> None:
    env = {"PYOCO_FAILPOINT": f"{place}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await strike(stack, ledger)
        if broker_too:
            stack.nats.kill()
            await stack.nats.restart()
        # While the gateway finds its broker again, it says so.
        answer = await eventually(
            lambda: submit(stack, ledger),
            lambda it: it.status_code != httpx.codes.SERVICE_UNAVAILABLE,
        )
        assert answer.status_code == 200
        assert answer.headers["Idempotency-Replayed"] == "true"
        run_id = answer.json()["run_id"]
        stack.env.clear()
        async with stack.worker(flows=flows):
            ended = await stack.client.wait(run_id)
            await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
            again = await submit(stack, ledger)
        assert again.json() == {"run_id": run_id, "status": "PENDING"}
        assert await stack.message_count("PYOCO_WORK") == 0
        assert await stack.client.get(run_id) == ended
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert executions(ledger) == [run_id]


async def test_a_run_that_was_queued_when_its_gateway_died_needs_no_second_request(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {"PYOCO_FAILPOINT": f"{Failpoint.SUBMIT_PUBLISHED}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await strike(stack, ledger)
        stack.env.clear()
        async with stack.worker(flows=flows):
            await eventually(lambda: len(executions(ledger)), 1, 20)
            (run_id,) = executions(ledger)
            assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_a_run_that_is_over_is_not_executed_again_by_its_key_after_the_broker_was_killed(
    stack: Stack, flows: str, ledger: Path
) -> None:
    """The broker forgets which jobs it has seen; the record does not."""
    async with stack.worker(flows=flows):
        run_id = (await submit(stack, ledger)).json()["run_id"]
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
        stack.nats.kill()
        await stack.nats.restart()
        again = await eventually(
            lambda: submit(stack, ledger), lambda it: it.status_code == httpx.codes.OK
        )
        assert (again.json()["run_id"], again.headers["Idempotency-Replayed"]) == (run_id, "true")
        after = await stack.client.wait((await submit(stack, ledger, key=None)).json()["run_id"])
        assert await stack.client.get(run_id) == ended
    assert executions(ledger) == [run_id, after["run_id"]]


@pytest.mark.timeout(120)
async def test_a_run_whose_gateway_died_before_it_was_queued_is_queued_by_the_next_one(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {"PYOCO_FAILPOINT": f"{Failpoint.SUBMIT_CREATED}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await strike(stack, ledger)
        assert await stack.message_count("PYOCO_WORK") == 0
        stack.env.clear()
        async with stack.worker(flows=flows):
            # Thirty seconds are what a gateway waits before it takes a job for lost.
            await eventually(lambda: len(executions(ledger)), 1, 60)
            (run_id,) = executions(ledger)
            ended = await stack.client.wait(run_id)
    # That it was queued again is noted only where no worker was faster than the note.
    assert ended["status"] == "COMPLETED"
