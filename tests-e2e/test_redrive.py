"""What failed is done again once its cause is mended, and only once."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pyoco_protocol.failpoints import Failpoint
from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


class Shop:
    """Flows that need a file to be there, and a ledger of their tries."""

    def __init__(self, folder: Path) -> None:
        self._needs = folder / "needs.txt"
        self._ledger = folder / "ledger.txt"

    def mend(self) -> None:
        self._needs.write_text("stock", encoding="utf-8")

    @property
    def tries(self) -> list[str]:
        lines = self._ledger.read_text(encoding="utf-8").splitlines()
        return [line.split()[0] for line in lines]

    async def fail(self, stack: Stack) -> str:
        """Have a run fail and return its id."""
        params = {"needs": str(self._needs), "ledger": str(self._ledger)}
        run_id = await stack.client.submit("fragile", params=params)
        assert (await stack.client.wait(run_id))["status"] == "FAILED"
        return run_id


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Give a shop whose stock is missing."""
    return Shop(tmp_path)


async def letters(stack: Stack) -> list[dict[str, Any]]:
    page: dict[str, Any] = (await stack.client.http.get("/dlq")).json()
    items: list[dict[str, Any]] = page["items"]
    return items


async def the_letter(stack: Stack, run_id: str) -> int:
    """Return the sequence of the one letter of a run, once it is there."""
    (letter,) = await eventually(lambda: letters(stack), lambda them: len(them) == 1)
    assert (letter["run_id"], letter["reason"]) == (run_id, "execution_error")
    return int(letter["seq"])


async def test_a_failed_run_is_redriven_when_its_cause_is_mended(
    stack: Stack, flows: str, shop: Shop
) -> None:
    async with stack.worker(flows=flows):
        failed = await shop.fail(stack)
        seq = await the_letter(stack, failed)
        dry = await stack.client.http.post("/dlq/redrive", json={"all": True, "dry_run": True})
        assert [each["seq"] for each in dry.json()["redriven"]] == [seq]
        assert await stack.message_count("PYOCO_WORK") == 0
        shop.mend()
        answer = await stack.client.http.post(f"/dlq/{seq}/redrive")
        assert answer.json() == dry.json()["redriven"][0]
        ended = await stack.client.wait(answer.json()["new_run_id"])
        assert await letters(stack) == []
    assert (ended["status"], ended["redriven_from"]) == ("COMPLETED", failed)
    assert (await stack.client.get(failed))["status"] == "FAILED"
    assert shop.tries == [failed, ended["run_id"]]


async def test_redriving_ten_times_at_once_is_one_run(stack: Stack, flows: str, shop: Shop) -> None:
    answers: list[httpx.Response] = []

    async def redrive(seq: int) -> None:
        answers.append(await stack.client.http.post(f"/dlq/{seq}/redrive"))

    async with stack.worker(flows=flows):
        failed = await shop.fail(stack)
        seq = await the_letter(stack, failed)
        shop.mend()
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(redrive, seq)
        done = [answer.json()["new_run_id"] for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} <= {200, 404}
        assert len(set(done)) == 1
        assert (await stack.client.wait(done[0]))["status"] == "COMPLETED"
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
    assert shop.tries == [failed, done[0]]


@pytest.mark.parametrize("place", [Failpoint.SUBMIT_CREATED, Failpoint.LETTER_REDRIVEN])
async def test_a_gateway_killed_over_a_redrive_is_asked_again(
    stack: Stack, flows: str, shop: Shop, place: Failpoint
) -> None:
    async with stack.worker(flows=flows):
        failed = await shop.fail(stack)
        seq = await the_letter(stack, failed)
        shop.mend()
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
    assert shop.tries == [failed, ended["run_id"]]


async def test_a_run_of_a_worker_is_kept_for_as_long_as_is_said(tmp_path: Path, flows: str) -> None:
    env = {"PYOCO_RUN_RETENTION_SEC": "2"}
    async with Stack(tmp_path / "stack", env=env) as stack, stack.worker(flows=flows):
        waiting = await stack.client.submit("noop", tag="later")
        ended = await stack.client.wait(await stack.client.submit("noop"))

        async def status() -> int:
            return (await stack.client.http.get(f"/runs/{ended['run_id']}")).status_code

        await eventually(status, httpx.codes.NOT_FOUND)
        assert await stack.client.status(waiting) == "PENDING"
