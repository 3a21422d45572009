"""`PyocoNatsWorker`: a worker inside another program, with any callable as its resolver."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from pyoco.core.models import Flow

import pyoco_worker
from embedded_worker import connected, flow_of, resolver_of
from pyoco_protocol.jetstream.run_store import StoredRun
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.eventually import eventually
from pyoco_worker import NatsBackendConfig, PyocoNatsWorker
from pyoco_worker.nats_worker import importable_name
from worker_fixture import WorkerFixture

FLOWS = Path(__file__).parent / "flows"


async def test_a_closure_resolves_a_flow_whose_run_completes(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    greeting = "Hello"

    def greet(name: str) -> str:
        sys.stdout.write("greeting\n")
        return f"{greeting}, {name}!"

    run_id = await fixture.submit("greet", name="you")
    async with connected(backend, resolver_of(greet), "embedded", ["default"]) as worker:
        assert await worker.run_once(timeout=20) == run_id
        run = (await fixture.read(run_id)).snapshot
        assert (run.status.value, run.result) == ("COMPLETED", {"greet": "Hello, you!"})
        assert (run.worker_id, run.attempt) == ("embedded", 1)
        assert await fixture.printed(run_id) == ["greeting"]
        assert await worker.run_once(timeout=0.1) is None
    assert await fixture.jobs_left() == 0


async def test_a_run_that_fails_is_processed_and_becomes_a_dead_letter(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    def breaks() -> None:
        raise ValueError("out of paper")

    async with connected(backend, lambda name: flow_of({"breaks": breaks}[name])) as worker:
        failing = await fixture.submit("breaks")
        assert await worker.run_once(timeout=20) == failing
        unknown = await fixture.submit("unknown")
        assert await worker.run_once(timeout=20) == unknown
    runs: list[RunSnapshot] = [(await fixture.read(each)).snapshot for each in (failing, unknown)]
    assert [run.err_id for run in runs] == ["ERR-PYOCO-0007", "ERR-PYOCO-0006"]
    assert "out of paper" in str(runs[0].error)
    letters = await fixture.dead_letters()
    assert [letter.run_id for letter in letters] == [failing, unknown]


async def test_a_resolver_that_can_be_imported_runs_in_a_new_process(
    fixture: WorkerFixture, backend: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FLOWS)
    import worker_flows  # type: ignore[import-not-found,unused-ignore] # found by the line above

    assert importable_name(worker_flows.resolve) == "worker_flows:resolve"
    assert importable_name(lambda name: name) is None
    run_id = await fixture.submit("noop")
    async with connected(backend, worker_flows.resolve) as worker:
        assert await worker.run_once(timeout=20) == run_id
    assert await fixture.status(run_id) == "COMPLETED"


async def test_no_job_is_taken_between_two_calls_and_one_by_each(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    def first() -> int:
        return 1

    async with connected(backend, resolver_of(first), tags=["a", "b"]) as worker:
        runs = {
            await fixture.submit("first", tag="a"),
            await fixture.submit("first", tag="b"),
        }
        assert await fixture.jobs_left() == 2
        taken = await worker.run_once(timeout=20)
        assert await fixture.jobs_left() == 1
        # A job that arrived beside the first one has returned to the queue.
        assert {taken, await worker.run_once(timeout=20)} == runs
        assert await worker.run_once(timeout=0) is None


async def test_a_job_that_is_no_job_becomes_a_dead_letter(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    async with connected(backend, resolver_of()) as worker:
        await fixture.queue(b"not a job")
        assert await worker.run_once(timeout=20) is None
    assert [letter.reason for letter in await fixture.dead_letters()] == ["invalid_job"]


async def test_a_worker_can_be_closed_twice_and_not_used_afterwards(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    worker = await PyocoNatsWorker.connect(backend, resolver_of())
    await worker.close()
    await worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        await worker.run_once()


async def test_close_ends_a_call_that_waits_for_a_job(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    worker = await PyocoNatsWorker.connect(backend, resolver_of())
    async with anyio.create_task_group() as tasks:
        answers: list[str | None] = []

        async def poll() -> None:
            answers.append(await worker.run_once(timeout=600))

        tasks.start_soon(poll)
        await anyio.wait_all_tasks_blocked()
        await worker.close()
    assert answers == [None]


async def request_cancel(fixture: WorkerFixture, run_id: str) -> None:
    """Record a cancel as a gateway does; the worker sees it with its next heartbeat."""

    def cancelled(run: StoredRun) -> RunSnapshot:
        update = {"status": RunStatus.CANCELLING, "cancel_requested_at": time.time()}
        return run.snapshot.model_copy(update=update)

    await fixture.store.change(run_id, cancelled)


def waiting(began: Path) -> Callable[[str], Flow]:
    def wait(ctx: Any) -> None:
        began.write_text(str(os.getpid()), encoding="utf-8")
        while not ctx.is_cancelled:
            time.sleep(0.01)
        raise RuntimeError("cancelled")

    return resolver_of(wait)


async def test_a_cancelled_run_ends_during_the_call(
    fixture: WorkerFixture, backend: NatsBackendConfig, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    run_id = await fixture.submit("wait")
    async with connected(backend, waiting(began)) as worker, anyio.create_task_group() as tasks:
        answers: list[str | None] = []

        async def poll() -> None:
            answers.append(await worker.run_once(timeout=20))

        tasks.start_soon(poll)
        await eventually(began.exists, True, 20)
        await request_cancel(fixture, run_id)
        await fixture.ended(run_id)
    assert answers == [run_id]
    assert await fixture.status(run_id) == "CANCELLED"


async def test_a_cancelled_call_gives_its_run_back_and_kills_its_child(
    fixture: WorkerFixture, backend: NatsBackendConfig, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    run_id = await fixture.submit("wait")
    async with connected(backend, waiting(began)) as worker:
        async with anyio.create_task_group() as call:
            call.start_soon(worker.run_once, 20)
            await eventually(lambda: began.exists() and began.read_text(), bool, 20)
            child = int(began.read_text())
            call.cancel_scope.cancel()
        assert await fixture.jobs_left() == 1
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
        began.unlink()
        # The same worker can take it again.
        async with anyio.create_task_group() as call:
            call.start_soon(worker.run_once, 20)
            await eventually(began.exists, True, 20)
            await request_cancel(fixture, run_id)
    assert await fixture.status(run_id) == "CANCELLED"
    assert (await fixture.read(run_id)).snapshot.attempt == 2


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"tags": ["gpu.large"]}, "'gpu.large' is not a tag"),
        ({"tags": ["default", ""]}, "'' is not a tag"),
        ({"worker_id": "a b"}, "'a b' is not a worker id"),
        ({"worker_id": ""}, "'' is not a worker id"),
    ],
)
async def test_invalid_arguments_raise_value_error(named: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        await PyocoNatsWorker.connect(NatsBackendConfig(), resolver_of(), **named)


async def test_connect_fails_if_nats_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyoco_worker.nats_worker._CONNECT_SEC", 0.5)
    with pytest.raises(BrokerUnavailableError):
        await PyocoNatsWorker.connect(
            NatsBackendConfig(nats_url="nats://127.0.0.1:1"), resolver_of()
        )


async def test_a_cancelled_connect_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unreachable = NatsBackendConfig(nats_url="nats://127.0.0.1:1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PyocoNatsWorker.connect, unreachable, resolver_of())
        # The watchdog and the child.
        await eventually(lambda: len(psutil.Process().children()), 2)
        tasks.cancel_scope.cancel()
    assert psutil.Process().children() == []


async def test_a_poll_during_an_outage_gives_none_and_the_next_one_takes_a_job(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    def first() -> int:
        return 1

    async with connected(backend, resolver_of(first)) as worker:
        fixture.nats.kill()
        await eventually(lambda: fixture.broker.is_up, False)
        assert await worker.run_once(timeout=0.1) is None
        await fixture.nats.restart()
        await fixture.broker.wait_until_up()
        run_id = await fixture.submit("first")
        assert await worker.run_once(timeout=20) == run_id


async def test_a_second_worker_with_the_same_id_is_refused(
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    async with connected(backend, resolver_of()):
        with pytest.raises(Exception, match="worker") as refused:
            await PyocoNatsWorker.connect(backend, resolver_of())
    assert getattr(refused.value, "entry", None) is not None


def test_the_package_offers_the_class_without_loading_it_at_import() -> None:
    assert pyoco_worker.PyocoNatsWorker is PyocoNatsWorker
