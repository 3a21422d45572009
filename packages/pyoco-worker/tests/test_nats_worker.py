"""`PyocoNatsWorker`: a worker inside another program, with any callable as its resolver."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from pyoco import task
from pyoco.core.models import Flow

import pyoco_worker
from pyoco_protocol.jetstream.run_store import StoredRun
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from pyoco_worker import NatsBackendConfig, PyocoNatsWorker
from pyoco_worker.nats_worker import importable_name
from worker_fixture import WorkerFixture

FLOWS = Path(__file__).parent / "flows"


def flow_of(function: Callable[..., object]) -> Flow:
    flow = Flow(name="flow")
    flow >> task(function)
    return flow


def resolver_of(*functions: Callable[..., object]) -> Callable[[str], Flow]:
    """Return a closure: no new process can import it by name."""
    named = {function.__name__: function for function in functions}

    def resolve(flow_name: str) -> Flow:
        return flow_of(named[flow_name])

    return resolve


@pytest.fixture
def config(
    fixture: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> NatsBackendConfig:
    # The directory for runs is `.pyoco/worker` below the current one.
    monkeypatch.chdir(tmp_path)
    return NatsBackendConfig(nats_url=fixture.nats.url, cancel_grace_period_sec=1.0)


@asynccontextmanager
async def connected(*args: Any, **named: Any) -> AsyncGenerator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(*args, **named)
    try:
        yield worker
    finally:
        await worker.close()


async def output_of(fixture: WorkerFixture, run_id: str) -> Any:
    run = (await fixture.read(run_id)).snapshot
    assert run.status.value == "COMPLETED", run.error
    (output,) = (run.result or {}).values()
    return output


async def test_a_closure_resolves_a_flow_whose_run_completes(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    greeting = "Hello"

    def greet(name: str) -> str:
        sys.stdout.write("greeting\n")
        return f"{greeting}, {name}!"

    run_id = await fixture.submit("greet", name="you")
    async with connected(config, resolver_of(greet), "embedded", ["default"]) as worker:
        assert await worker.run_once(timeout=20) == run_id
        run = (await fixture.read(run_id)).snapshot
        assert (run.status.value, run.result) == ("COMPLETED", {"greet": "Hello, you!"})
        assert (run.worker_id, run.attempt) == ("embedded", 1)
        assert await fixture.printed(run_id) == ["greeting"]
        assert await worker.run_once(timeout=0.1) is None
    assert await fixture.jobs_left() == 0


async def test_a_run_that_fails_is_processed_and_becomes_a_dead_letter(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    def breaks() -> None:
        raise ValueError("out of paper")

    async with connected(config, lambda name: flow_of({"breaks": breaks}[name])) as worker:
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
    fixture: WorkerFixture, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FLOWS)
    import worker_flows  # type: ignore[import-not-found,unused-ignore] # found by the line above

    assert importable_name(worker_flows.resolve) == "worker_flows:resolve"
    assert importable_name(lambda name: name) is None
    run_id = await fixture.submit("noop")
    async with connected(config, worker_flows.resolve) as worker:
        assert await worker.run_once(timeout=20) == run_id
    assert await fixture.status(run_id) == "COMPLETED"


async def test_no_job_is_taken_between_two_calls_and_one_by_each(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    def first() -> int:
        return 1

    async with connected(config, resolver_of(first), tags=["a", "b"]) as worker:
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
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    async with connected(config, resolver_of()) as worker:
        await fixture.queue(b"not a job")
        assert await worker.run_once(timeout=20) is None
    assert [letter.reason for letter in await fixture.dead_letters()] == ["invalid_job"]


async def test_a_worker_can_be_closed_twice_and_not_used_afterwards(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    worker = await PyocoNatsWorker.connect(config, resolver_of())
    await worker.close()
    await worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        await worker.run_once()


async def test_close_ends_a_call_that_waits_for_a_job(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    worker = await PyocoNatsWorker.connect(config, resolver_of())
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
    fixture: WorkerFixture, config: NatsBackendConfig, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    run_id = await fixture.submit("wait")
    async with connected(config, waiting(began)) as worker, anyio.create_task_group() as tasks:
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
    fixture: WorkerFixture, config: NatsBackendConfig, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    run_id = await fixture.submit("wait")
    async with connected(config, waiting(began)) as worker:
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


async def test_a_forked_child_has_nothing_of_the_worker_but_its_memory(
    fixture: WorkerFixture,
    config: NatsBackendConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = {"WORKER_SECRET", "LC_TEST"}
    for name in looked_up:
        monkeypatch.setenv(name, "set")
    listening = socket.create_server(("127.0.0.1", 0))
    here = {"pid": os.getpid(), "threads": threading.active_count()}

    def look() -> dict[str, object]:
        opened = list(Path("/dev/fd").iterdir())
        # The descriptor of the listing is closed by now.
        links = [str(path.readlink()) for path in opened if path.is_symlink()]
        kinds = sorted(link.partition(":")[0] for link in links)
        return {
            "own process": os.getpid() != here["pid"],
            "own session": os.getsid(0) == os.getpid(),
            "leader of its group": os.getpgid(0) == os.getpid(),
            "descriptors": kinds,
            "variables": sorted(looked_up & {*os.environ}),  # noqa: TID251 - seen by a flow
            "sigterm": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
            "main thread": threading.current_thread() is threading.main_thread(),
            "asyncio": asyncio.run(asyncio.sleep(0, "runs")),
            "anyio": anyio.run(anyio.sleep, 0),
            "directory": str(Path.cwd()),
        }

    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        run_id = await fixture.submit("look")
        async with connected(config, resolver_of(look)) as worker:
            assert await worker.run_once(timeout=20) == run_id
        found = await output_of(fixture, run_id)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        listening.close()
    assert Path(found.pop("directory")).is_relative_to(tmp_path)
    assert found.pop("descriptors") == ["/dev/null", *["pipe"] * 4, *["socket"] * 2]
    assert found == {
        "own process": True,
        "own session": True,
        "leader of its group": True,
        "variables": ["LC_TEST"],
        "sigterm": True,
        "main thread": True,
        "asyncio": "runs",
        "anyio": None,
    }


async def test_a_flow_that_ends_its_forked_child_fails_only_its_run(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    def leaves() -> None:
        sys.stderr.write("goodbye\n")
        os._exit(7)

    def stays() -> int:
        return os.getpid()

    async with connected(config, resolver_of(leaves, stays)) as worker:
        ended = await fixture.submit("leaves")
        assert await worker.run_once(timeout=20) == ended
        run_id = await fixture.submit("stays")
        assert await worker.run_once(timeout=20) == run_id
    run = (await fixture.read(ended)).snapshot
    assert run.err_id == "ERR-PYOCO-0113"
    assert "exited with code 7" in str(run.error)
    assert "goodbye" in str(run.error)
    child = await output_of(fixture, run_id)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_threads_of_the_program_do_not_keep_a_child_from_starting(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            json.loads(json.dumps({"a": [1] * 100}))

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:

        def count() -> int:
            return threading.active_count()

        async with connected(config, resolver_of(count)) as worker:
            run_id = await fixture.submit("count")
            assert await worker.run_once(timeout=20) == run_id
        # The main thread and the one that receives cancels.
        assert await output_of(fixture, run_id) == 2
    finally:
        stop.set()
        for thread in threads:
            thread.join()


PROGRAM = """\
import asyncio, os, pathlib, time
from pyoco import task
from pyoco.core.models import Flow
from pyoco_worker import PyocoNatsWorker

def wait(began):
    pathlib.Path(began).write_text(str(os.getpid()))
    while True:
        time.sleep(1)

def resolve(name):
    flow = Flow(name=name)
    flow >> task(wait)
    return flow

async def main():
    worker = await PyocoNatsWorker.connect(flow_resolver=resolve)
    await worker.run_once(timeout=60)

asyncio.run(main())
"""


async def test_a_forked_child_ends_with_its_killed_program(
    fixture: WorkerFixture, tmp_path: Path
) -> None:
    file, began = tmp_path / "program.py", tmp_path / "began"
    file.write_text(PROGRAM, encoding="utf-8")
    env = {"PYOCO_NATS_URL": fixture.nats.url}
    async with ManagedProcess("program", (sys.executable, file), tmp_path, env) as program:
        await fixture.submit("wait", began=str(began))
        await eventually(lambda: began.exists() and began.read_text(), bool, 30)
        child = psutil.Process(int(began.read_text()))
        program.kill()
        await eventually(child.is_running, False)


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


async def test_a_second_worker_with_the_same_id_is_refused(
    fixture: WorkerFixture, config: NatsBackendConfig
) -> None:
    async with connected(config, resolver_of()):
        with pytest.raises(Exception, match="worker") as refused:
            await PyocoNatsWorker.connect(config, resolver_of())
    assert getattr(refused.value, "entry", None) is not None


def test_the_package_offers_the_class_without_loading_it_at_import() -> None:
    assert pyoco_worker.PyocoNatsWorker is PyocoNatsWorker
