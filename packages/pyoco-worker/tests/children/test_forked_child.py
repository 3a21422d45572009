"""Children that are forked, because no new process could import their resolver."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from embedded_worker import connected, resolver_of
from pyoco_testkit.eventually import eventually
from pyoco_testkit.processes import ManagedProcess
from pyoco_worker import NatsBackendConfig
from worker_fixture import WorkerFixture


async def output_of(fixture: WorkerFixture, run_id: str) -> Any:
    run = (await fixture.read(run_id)).snapshot
    assert run.status.value == "COMPLETED", run.error
    (output,) = (run.result or {}).values()
    return output


async def test_a_forked_child_has_nothing_of_the_worker_but_its_memory(
    fixture: WorkerFixture,
    backend: NatsBackendConfig,
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
        async with connected(backend, resolver_of(look)) as worker:
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
    fixture: WorkerFixture, backend: NatsBackendConfig
) -> None:
    def leaves() -> None:
        sys.stderr.write("goodbye\n")
        os._exit(7)

    def stays() -> int:
        return os.getpid()

    async with connected(backend, resolver_of(leaves, stays)) as worker:
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
    fixture: WorkerFixture, backend: NatsBackendConfig
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

        async with connected(backend, resolver_of(count)) as worker:
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
