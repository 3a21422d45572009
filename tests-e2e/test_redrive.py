"""A dead letter can be redriven after its cause was fixed, and runs only once."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


class FragileRuns:
    """Submits runs that fail until a file exists; a ledger file lists the executed runs."""

    def __init__(self, folder: Path) -> None:
        self._needs = folder / "needs.txt"
        self._ledger = folder / "ledger.txt"

    def fix(self) -> None:
        self._needs.write_text("stock", encoding="utf-8")

    @property
    def executed(self) -> list[str]:
        lines = self._ledger.read_text(encoding="utf-8").splitlines()
        return [line.split()[0] for line in lines]

    async def fail(self, stack: Stack) -> str:
        """Submit a run, wait until it has failed, and return its id."""
        params = {"needs": str(self._needs), "ledger": str(self._ledger)}
        run_id = await stack.client.submit("fragile", params=params)
        assert (await stack.client.wait(run_id))["status"] == "FAILED"
        return run_id


@pytest.fixture
def fragile(tmp_path: Path) -> FragileRuns:
    """Return runs whose file does not exist yet."""
    return FragileRuns(tmp_path)


async def letters(stack: Stack) -> list[dict[str, Any]]:
    page: dict[str, Any] = (await stack.client.http.get("/dlq")).json()
    items: list[dict[str, Any]] = page["items"]
    return items


async def only_letter_seq(stack: Stack, run_id: str) -> int:
    """Wait for the only dead letter and return its sequence."""
    (letter,) = await eventually(lambda: letters(stack), lambda found: len(found) == 1)
    assert (letter["run_id"], letter["reason"]) == (run_id, "execution_error")
    return int(letter["seq"])


async def test_a_redriven_run_completes_after_its_cause_was_fixed(
    stack: Stack, flows: str, fragile: FragileRuns
) -> None:
    async with stack.worker(flows=flows):
        failed = await fragile.fail(stack)
        seq = await only_letter_seq(stack, failed)
        dry = await stack.client.http.post("/dlq/redrive", json={"all": True, "dry_run": True})
        assert [each["seq"] for each in dry.json()["redriven"]] == [seq]
        assert await stack.message_count("PYOCO_WORK") == 0
        fragile.fix()
        answer = await stack.client.http.post(f"/dlq/{seq}/redrive")
        assert answer.json() == dry.json()["redriven"][0]
        ended = await stack.client.wait(answer.json()["new_run_id"])
        assert await letters(stack) == []
    assert (ended["status"], ended["redriven_from"]) == ("COMPLETED", failed)
    assert (await stack.client.get(failed))["status"] == "FAILED"
    assert fragile.executed == [failed, ended["run_id"]]


async def test_ten_concurrent_redrives_make_one_run(
    stack: Stack, flows: str, fragile: FragileRuns
) -> None:
    answers: list[httpx.Response] = []

    async def redrive(seq: int) -> None:
        answers.append(await stack.client.http.post(f"/dlq/{seq}/redrive"))

    async with stack.worker(flows=flows):
        failed = await fragile.fail(stack)
        seq = await only_letter_seq(stack, failed)
        fragile.fix()
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(redrive, seq)
        done = [answer.json()["new_run_id"] for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} <= {200, 404}
        assert len(set(done)) == 1
        assert (await stack.client.wait(done[0]))["status"] == "COMPLETED"
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
    assert fragile.executed == [failed, done[0]]


@pytest.mark.parametrize("place", [Failpoint.SUBMIT_CREATED, Failpoint.LETTER_REDRIVEN])
async def test_a_redrive_can_be_repeated_after_its_gateway_was_killed(
    stack: Stack, flows: str, fragile: FragileRuns, place: Failpoint
) -> None:
    async with stack.worker(flows=flows):
        failed = await fragile.fail(stack)
        seq = await only_letter_seq(stack, failed)
        fragile.fix()
        stack.gateway.kill()
        await stack.gateway.wait()
        stack.gateway.set_env({"PYOCO_FAILPOINT": f"{place}:kill"})
        await stack.start_gateway()
        with pytest.raises(httpx.TransportError):
            await stack.client.http.post(f"/dlq/{seq}/redrive")
        assert await stack.gateway.wait() == -9
        stack.gateway.set_env({})
        await stack.start_gateway()
        answer = await stack.client.http.post(f"/dlq/{seq}/redrive")
        assert (answer.status_code, answer.headers["Idempotency-Replayed"]) == (200, "true")
        ended = await stack.client.wait(answer.json()["new_run_id"])
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
        assert await letters(stack) == []
    assert (ended["status"], ended["redriven_from"]) == ("COMPLETED", failed)
    assert fragile.executed == [failed, ended["run_id"]]


async def test_an_ended_run_expires_after_its_retention(tmp_path: Path, flows: str) -> None:
    env = {"PYOCO_RUN_RETENTION_SEC": "2"}
    async with Stack(tmp_path / "stack", env=env) as stack, stack.worker(flows=flows):
        waiting = await stack.client.submit("noop", tag="later")
        ended = await stack.client.wait(await stack.client.submit("noop"))

        async def status() -> int:
            return (await stack.client.http.get(f"/runs/{ended['run_id']}")).status_code

        await eventually(status, httpx.codes.NOT_FOUND)
        assert await stack.client.status(waiting) == "PENDING"
