"""`POST /runs/{run_id}/cancel` against a real broker: the recorded cancel and the run's end."""

import random
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.runs.cancel import CancelRun
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore
from pyoco_protocol.problems import SnapshotUnreadableError
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.subjects import ALL_CANCEL_HINTS, Names, cancel_hint
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer

UPPER_CASE = "7D0C1A9E-3F5B-4F0E-9A51-0C2F7A11D3B4"
IMPOSSIBLE_IDS = ["nosuch", "a b", ">", "*", "a.b", "%00", "x" * 500, UPPER_CASE]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def broker(nats_server: NatsServer, gateway: httpx.AsyncClient) -> AsyncGenerator[Broker]:
    """A connection like that of a worker; the gateway has prepared the broker."""
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="worker") as opened:
        await opened.wait_until_up()
        yield opened


@pytest.fixture
def runs(broker: Broker) -> RunStore:
    return RunStore(broker, Names(), retention_sec=0)


async def submit(gateway: httpx.AsyncClient) -> str:
    answer = await gateway.post("/runs", json={"flow_name": "nap"})
    return str(answer.json()["run_id"])


async def cancel(gateway: httpx.AsyncClient, run_id: str, **arguments: Any) -> dict[str, Any]:
    answer = await gateway.post(f"/runs/{run_id}/cancel", **arguments)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def status(gateway: httpx.AsyncClient, run_id: str) -> str:
    return str((await gateway.get(f"/runs/{run_id}")).json()["status"])


async def revision_of(runs: RunStore, run_id: str) -> int:
    stored = await runs.read(run_id)
    assert stored is not None
    return stored.revision


async def claim(runs: RunStore, run_id: str, **fields: Any) -> RunSnapshot:
    stored = await runs.read(run_id)
    assert stored is not None
    owned = {"status": RunStatus.RUNNING, "worker_id": "w1", "instance_id": "life", "attempt": 1}
    run = stored.snapshot.model_copy(update={**owned, **fields})
    return (await runs.replace(stored, run)).snapshot


async def test_an_unclaimed_run_is_cancelled_right_after_the_answer(
    gateway: httpx.AsyncClient, runs: RunStore
) -> None:
    run_id = await submit(gateway)
    answered = await cancel(gateway, run_id, json={"reason": "wrong parameters"})
    assert answered["status"] == "CANCELLING"
    assert (answered["cancel_reason"], answered["cancel_requested_by"]) == (
        "wrong parameters",
        None,
    )
    assert answered["cancel_requested_at"] == answered["updated_at"] > 0
    await eventually(lambda: status(gateway, run_id), "CANCELLED", 2)
    ended = (await gateway.get(f"/runs/{run_id}")).json()
    assert ended["cancel_reason"] == "wrong parameters"
    assert ended["cancel_requested_at"] == answered["cancel_requested_at"]
    assert (ended["attempt"], ended["late_outcome"]) == (0, None)
    assert ended["end_time"] is not None
    # PENDING, CANCELLING, CANCELLED.
    assert await revision_of(runs, run_id) == 3


async def test_a_run_that_an_earlier_server_s_worker_has_started_is_left_to_it(
    gateway: httpx.AsyncClient, runs: RunStore, broker: Broker
) -> None:
    """Such a worker writes no id. It stops the flow when it reads CANCELLING, and only then."""
    run_id = await submit(gateway)
    # The fields that the worker of `pyoco-server` 0.5.1 writes.
    foreign = snapshot(run_id=run_id, status="RUNNING", start_time=1.0, tasks={"a": "RUNNING"})
    await put_record(broker, foreign)
    assert (await cancel(gateway, run_id))["status"] == "CANCELLING"
    await CancelRun(broker, runs).finish_unclaimed(run_id)
    assert await status(gateway, run_id) == "CANCELLING"


async def test_a_run_without_a_cancel_is_not_ended_as_unclaimed(
    gateway: httpx.AsyncClient, runs: RunStore, broker: Broker
) -> None:
    """The run may have been deleted and submitted again since its cancel was answered."""
    run_id = await submit(gateway)
    await CancelRun(broker, runs).finish_unclaimed(run_id)
    assert await status(gateway, run_id) == RunStatus.PENDING


async def test_a_record_of_another_run_is_a_named_error(
    gateway: httpx.AsyncClient, broker: Broker
) -> None:
    run_id, other = new_run_id(), snapshot(status=RunStatus.CANCELLED)
    await ask(broker.client, Names().run(run_id), other.to_bytes())
    for answer in (
        await gateway.post(f"/runs/{run_id}/cancel"),
        await gateway.delete(f"/runs/{run_id}"),
    ):
        assert answer.json()["err_id"] == SnapshotUnreadableError.entry.err_id


async def test_a_claimed_run_is_left_to_its_worker(
    gateway: httpx.AsyncClient, runs: RunStore, broker: Broker
) -> None:
    hinted = await broker.client.subscribe(ALL_CANCEL_HINTS)
    await broker.client.flush()
    run_id = await submit(gateway)
    await claim(runs, run_id, tasks={"a": TaskStatus.RUNNING})
    answered = await cancel(gateway, run_id)
    assert (answered["status"], answered["worker_id"]) == ("CANCELLING", "w1")
    assert answered["tasks"] == {"a": "RUNNING"}
    message = await hinted.next_msg(timeout=5)
    assert message.subject == cancel_hint("default", run_id)
    # The second answer comes after the background task of the first request.
    assert (await cancel(gateway, run_id))["status"] == "CANCELLING"
    stored = await runs.read(run_id)
    assert stored is not None
    assert (stored.snapshot.status, stored.snapshot.attempt) == (RunStatus.CANCELLING, 1)
    assert stored.revision == 3


async def test_a_run_of_an_earlier_servers_worker_counts_as_claimed(
    gateway: httpx.AsyncClient, runs: RunStore
) -> None:
    run_id = await submit(gateway)
    await claim(runs, run_id, instance_id=None, attempt=0)
    await cancel(gateway, run_id)
    assert await status(gateway, run_id) == "CANCELLING"


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "CANCELLED"])
async def test_an_ended_run_is_answered_unchanged(
    gateway: httpx.AsyncClient, runs: RunStore, broker: Broker, end: str
) -> None:
    hinted = await broker.client.subscribe(ALL_CANCEL_HINTS)
    await broker.client.flush()
    run = snapshot(status=end, end_time=5.0)
    revision = (await put_record(broker, run)).revision
    for _ in range(3):
        answered = await cancel(gateway, run.run_id, json={"reason": "too late"})
        assert (answered["status"], answered["end_time"]) == (end, 5.0)
        assert (answered["cancel_requested_at"], answered["cancel_reason"]) == (None, None)
    assert await revision_of(runs, run.run_id) == revision
    assert hinted.pending_msgs == 0


async def test_a_second_cancel_changes_nothing(gateway: httpx.AsyncClient, runs: RunStore) -> None:
    run_id = await submit(gateway)
    await claim(runs, run_id)
    first = await cancel(gateway, run_id, json={"reason": "first"})
    revision = await revision_of(runs, run_id)
    assert await cancel(gateway, run_id, json={"reason": "second"}) == first
    assert await cancel(gateway, run_id) == first
    assert await revision_of(runs, run_id) == revision


async def test_cancelling_without_a_time_or_caller_counts_as_a_cancel(
    gateway: httpx.AsyncClient, broker: Broker
) -> None:
    """As a worker of an earlier server writes it."""
    run = snapshot(status="CANCELLING")
    await put_record(broker, run)
    assert (await cancel(gateway, run.run_id))["status"] == "CANCELLING"
    await eventually(lambda: status(gateway, run.run_id), "CANCELLED", 2)


async def test_a_cancel_whose_status_was_overwritten_is_recorded_again(
    gateway: httpx.AsyncClient, runs: RunStore, broker: Broker
) -> None:
    """Another program overwrote the status. The answer must show that the run will be cancelled."""
    run_id = await submit(gateway)
    claimed = await claim(runs, run_id)
    first = {"cancel_requested_at": 5.0, "cancel_reason": "first"}
    await put_record(broker, claimed.model_copy(update=first))
    answered = await cancel(gateway, run_id, json={"reason": "second"})
    assert answered["status"] == "CANCELLING"
    assert (answered["cancel_requested_at"], answered["cancel_reason"]) == (5.0, "first")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"json": {}},
        {"json": {"reason": None}},
        {"json": {"unknown": 1}},
        {"json": {"reason": "x" * 1000}},
        {"json": {"reason": "改行\nと\t記号"}},
    ],
)
async def test_the_reason_is_optional(
    gateway: httpx.AsyncClient, arguments: dict[str, Any]
) -> None:
    run_id = await submit(gateway)
    answered = await cancel(gateway, run_id, **arguments)
    assert answered["status"] == "CANCELLING"
    assert answered["cancel_reason"] == arguments.get("json", {}).get("reason")


@pytest.mark.parametrize(
    ("arguments", "code", "err_id"),
    [
        ({"json": {"reason": "x" * 1001}}, 422, "ERR-PYOCO-0002"),
        ({"json": {"reason": 7}}, 422, "ERR-PYOCO-0002"),
        ({"json": []}, 422, "ERR-PYOCO-0002"),
        (
            {"content": b"null", "headers": JSON},
            422,
            "ERR-PYOCO-0002",
        ),
        ({"content": b"{", "headers": JSON}, 422, "ERR-PYOCO-0002"),
        (
            {"content": b'{"reason": "\\ud800"}', "headers": JSON},
            422,
            "ERR-PYOCO-0002",
        ),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "ERR-PYOCO-0103"),
        ({"content": b"{}"}, 415, "ERR-PYOCO-0103"),
        ({"data": {"reason": "form"}}, 415, "ERR-PYOCO-0103"),
        (
            {"content": b" " * 2_000_000, "headers": JSON},
            413,
            "ERR-PYOCO-0101",
        ),
    ],
)
async def test_an_invalid_request_cancels_nothing(
    gateway: httpx.AsyncClient, runs: RunStore, arguments: dict[str, Any], code: int, err_id: str
) -> None:
    run_id = await submit(gateway)
    answer = await gateway.post(f"/runs/{run_id}/cancel", **arguments)
    assert (answer.status_code, answer.json()["err_id"]) == (code, err_id)
    assert await revision_of(runs, run_id) == 1


@pytest.mark.parametrize("run_id", [*IMPOSSIBLE_IDS, pytest.param(new_run_id(), id="unknown")])
async def test_an_unknown_run_cannot_be_cancelled(gateway: httpx.AsyncClient, run_id: str) -> None:
    answer = await gateway.post(f"/runs/{run_id}/cancel")
    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0005")


async def test_an_unreadable_record_is_a_named_error(
    gateway: httpx.AsyncClient, broker: Broker
) -> None:
    run_id = new_run_id()
    await ask(broker.client, Names().run(run_id), b"{}")
    answer = await gateway.post(f"/runs/{run_id}/cancel")
    assert answer.json()["err_id"] == "ERR-PYOCO-0115"


async def test_without_a_broker_the_cancel_is_refused(
    gateway: httpx.AsyncClient, nats_server: NatsServer
) -> None:
    run_id = await submit(gateway)
    nats_server.kill()

    async def refused() -> int:
        return (await gateway.post(f"/runs/{run_id}/cancel")).status_code

    await eventually(refused, 503)
    await nats_server.restart()
    await eventually(refused, 200)
    await eventually(lambda: status(gateway, run_id), "CANCELLED", 5)


async def test_the_answer_has_no_internal_fields(gateway: httpx.AsyncClient) -> None:
    run_id = await submit(gateway)
    assert not {"request_hash", "accepted_by", "task_records"} & set(await cancel(gateway, run_id))


async def finish_like_a_worker(runs: RunStore, run_id: str, dice: random.Random) -> None:
    """Claim a run and write its end, with random pauses."""
    await anyio.sleep(dice.uniform(0, 0.01))
    stored = await runs.read(run_id)
    assert stored is not None
    if stored.snapshot.status is RunStatus.PENDING:
        owned = {"status": RunStatus.RUNNING, "instance_id": "life", "attempt": 1}
        try:
            await runs.replace(stored, stored.snapshot.model_copy(update=owned))
        except ConflictError:
            return
    outcome = dice.choice([RunStatus.COMPLETED, RunStatus.FAILED])
    while (stored := await runs.read(run_id)) and not stored.snapshot.status.is_terminal:
        await anyio.sleep(dice.uniform(0, 0.004))
        end = stored.snapshot.model_copy(update={"status": outcome, "end_time": 9.0})
        try:
            await runs.replace(stored, end)
        except ConflictError:
            continue


async def ends_of_a_race(
    gateway: httpx.AsyncClient, runs: RunStore, seed: int, cancels: int
) -> tuple[set[str], str, int | None]:
    """Return the statuses answered to the cancels, the end of the run, and its revision."""
    dice = random.Random(seed)
    run_id = await submit(gateway)
    answers: set[str] = set()

    async def request_cancel() -> None:
        await anyio.sleep(dice.uniform(0, 0.02))
        answers.add((await cancel(gateway, run_id))["status"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finish_like_a_worker, runs, run_id, dice)
        for _ in range(cancels):
            tasks.start_soon(request_cancel)
    ended = await eventually(lambda: status(gateway, run_id), lambda it: it in _ENDS)
    return answers, ended, await revision_of(runs, run_id)


_ENDS = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


@pytest.mark.timeout(120)
async def test_a_run_answered_as_cancelling_ends_cancelled_in_two_hundred_races(
    gateway: httpx.AsyncClient, runs: RunStore
) -> None:
    seen: set[str] = set()
    for seed in range(200):
        answers, ended, _ = await ends_of_a_race(gateway, runs, seed, cancels=2)
        seen |= answers
        if "CANCELLING" in answers:
            assert ended == "CANCELLED", f"seed {seed}: {answers}"
        else:
            # A terminal status in the answer stays.
            assert answers == {ended}, f"seed {seed}: {answers}"
    # Some cancels were in time and some too late.
    assert "CANCELLING" in seen
    assert seen & {"COMPLETED", "FAILED"}


async def test_fifty_concurrent_cancels_have_one_outcome(
    gateway: httpx.AsyncClient, runs: RunStore
) -> None:
    for seed in range(5):
        answers, ended, _ = await ends_of_a_race(gateway, runs, seed, cancels=50)
        assert answers <= {"CANCELLING", ended}
        assert "CANCELLING" not in answers or ended == "CANCELLED"


async def test_two_gateways_cancel_one_run_once(
    nats_server: NatsServer, gateway: httpx.AsyncClient, start_gateway: Any, runs: RunStore
) -> None:
    async with start_gateway(nats_server.url) as other:
        for _ in range(10):
            run_id = await submit(gateway)
            before = await revision_of(runs, run_id)
            async with anyio.create_task_group() as tasks:
                for each in (gateway, other) * 5:
                    tasks.start_soon(cancel, each, run_id)
            await eventually(partial(status, other, run_id), "CANCELLED", 2)
            assert await revision_of(runs, run_id) == before + 2
