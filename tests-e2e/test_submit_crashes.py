"""A run exists once although gateway or broker crash during its submission."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return the path of a file that flows append to."""
    return tmp_path / "ledger.txt"


def executions(ledger: Path) -> list[str]:
    """Return the ids of the executed runs."""
    if not ledger.exists():
        return []
    return [line.split()[0] for line in ledger.read_text(encoding="utf-8").splitlines()]


async def submit(stack: Stack, ledger: Path, key: str | None = "order-7") -> httpx.Response:
    body: dict[str, Any] = {"flow_name": "ledger", "params": {"ledger": str(ledger)}}
    headers = {} if key is None else {"X-Idempotency-Key": key}
    return await stack.client.http.post("/runs", json=body, headers=headers)


async def crash_gateway(stack: Stack, ledger: Path) -> None:
    """Submit a run, at which the gateway crashes, and restart the gateway."""
    with pytest.raises(httpx.TransportError):
        await submit(stack, ledger)
    assert await stack.gateway.wait() == -9
    stack.gateway.set_env({})
    await stack.start_gateway()


@pytest.mark.parametrize("place", [Failpoint.SUBMIT_CREATED, Failpoint.SUBMIT_PUBLISHED])
@pytest.mark.parametrize("broker_too", [False, True])
async def test_a_submission_can_be_repeated_after_its_gateway_was_killed(
    tmp_path: Path, flows: str, ledger: Path, place: Failpoint, broker_too: bool
) -> None:
    env = {"PYOCO_FAILPOINT": f"{place}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await crash_gateway(stack, ledger)
        if broker_too:
            stack.nats.kill()
            await stack.nats.restart()
        # The gateway answers 503 until it is connected to the broker again.
        answer = await eventually(
            lambda: submit(stack, ledger),
            lambda answer: answer.status_code != httpx.codes.SERVICE_UNAVAILABLE,
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


async def test_a_published_run_is_executed_although_its_gateway_was_killed(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {"PYOCO_FAILPOINT": f"{Failpoint.SUBMIT_PUBLISHED}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await crash_gateway(stack, ledger)
        stack.env.clear()
        async with stack.worker(flows=flows):
            await eventually(lambda: len(executions(ledger)), 1, 20)
            (run_id,) = executions(ledger)
            assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_an_ended_run_is_not_executed_again_by_its_idempotency_key_after_a_broker_crash(
    stack: Stack, flows: str, ledger: Path
) -> None:
    """The broker loses its list of message ids; the record of the run stays."""
    async with stack.worker(flows=flows):
        run_id = (await submit(stack, ledger)).json()["run_id"]
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0, 15)
        stack.nats.kill()
        await stack.nats.restart()
        again = await eventually(
            lambda: submit(stack, ledger), lambda answer: answer.status_code == httpx.codes.OK
        )
        assert (again.json()["run_id"], again.headers["Idempotency-Replayed"]) == (run_id, "true")
        after = await stack.client.wait((await submit(stack, ledger, key=None)).json()["run_id"])
        assert await stack.client.get(run_id) == ended
    assert executions(ledger) == [run_id, after["run_id"]]


@pytest.mark.timeout(120)
async def test_a_run_whose_gateway_was_killed_before_publishing_is_published_later(
    tmp_path: Path, flows: str, ledger: Path
) -> None:
    env = {"PYOCO_FAILPOINT": f"{Failpoint.SUBMIT_CREATED}:kill"}
    async with Stack(tmp_path / "stack", env=env) as stack:
        await crash_gateway(stack, ledger)
        assert await stack.message_count("PYOCO_WORK") == 0
        stack.env.clear()
        async with stack.worker(flows=flows):
            # A gateway waits thirty seconds before it publishes an unconfirmed job again.
            await eventually(lambda: len(executions(ledger)), 1, 60)
            (run_id,) = executions(ledger)
            ended = await stack.client.wait(run_id)
    # No check of the republish mark: a fast worker overwrites it.
    assert ended["status"] == "COMPLETED"
