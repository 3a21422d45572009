"""The broker stops and restarts while gateway and workers keep running."""

from pathlib import Path

import anyio
import httpx

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


async def _health(stack: Stack) -> int:
    return (await stack.client.http.get("/health")).status_code


async def _submit_status(stack: Stack) -> int:
    answer = await stack.client.http.post("/runs", json={"flow_name": "greet"})
    return answer.status_code


async def test_a_gateway_that_starts_before_the_broker_accepts_runs_when_the_broker_is_up(
    tmp_path: Path, flows: str
) -> None:
    async with Stack(tmp_path / "stack") as stack:
        await stack.gateway.stop()
        await stack.nats.stop()
        await stack.start_gateway()
        answer = await stack.client.http.post("/runs", json={"flow_name": "greet"})
        assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")
        assert await _health(stack) == 200
        await stack.nats.start()
        await eventually(lambda: _submit_status(stack), 200)
        async with stack.worker(flows=flows):
            ended = await stack.client.wait(await stack.client.submit("greet"))
    assert ended["status"] == "COMPLETED"


async def test_a_worker_that_starts_before_the_broker_executes_runs_when_the_broker_is_up(
    stack: Stack, flows: str
) -> None:
    run_id = await stack.client.submit("greet")
    await stack.nats.stop()
    async with anyio.create_task_group() as tasks:

        async def start_broker_later() -> None:
            await eventually(lambda: _submit_status(stack), 503)
            await stack.nats.start()

        tasks.start_soon(start_broker_later)
        async with stack.worker(flows=flows):
            assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_runs_submitted_around_a_broker_restart_all_complete_once(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.txt"
    accepted: list[str] = []
    async with stack.worker(flows=flows, concurrency=2) as worker:
        async with anyio.create_task_group() as tasks:
            done = anyio.Event()

            async def keep_submitting() -> None:
                while not done.is_set():
                    body = {"flow_name": "ledger", "params": {"ledger": str(ledger)}}
                    try:
                        answer = await stack.client.http.post("/runs", json=body)
                    except httpx.TransportError:
                        continue
                    if answer.status_code == 200:
                        accepted.append(answer.json()["run_id"])
                    else:
                        assert answer.status_code == 503, answer.text

            for _ in range(4):
                tasks.start_soon(keep_submitting)
            for kill in (True, False):
                before = len(accepted)
                await eventually(lambda: len(accepted), lambda count, b=before: count > b + 20)
                if kill:
                    stack.nats.kill()
                    await stack.nats.start()
                else:
                    await stack.nats.restart()
            before = len(accepted)
            await eventually(lambda: len(accepted), lambda count, b=before: count > b + 20)
            done.set()
        ended = [await stack.client.wait(run_id, timeout=60) for run_id in accepted]
        assert worker.is_running
        assert stack.gateway.is_running
    assert {run["status"] for run in ended} == {"COMPLETED"}
    lines = ledger.read_text(encoding="utf-8").split("\n")
    executed = [tuple(line.split()[:2]) for line in lines if line]
    # Each attempt executes at most once.
    assert len(executed) == len(set(executed))
    assert set(accepted) <= {run_id for run_id, _ in executed}


async def test_a_run_continues_while_the_broker_is_down(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.txt"
    async with stack.worker(flows=flows):
        params = {"seconds": 3, "ledger": str(ledger)}
        run_id = await stack.client.submit("ledger-nap", params=params)
        await eventually(ledger.exists, True)
        stack.nats.kill()
        await eventually(lambda: _submit_status(stack), 503)
        await stack.nats.start()
        ended = await stack.client.wait(run_id)
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == 1
