"""The worker process of `pyoco-server dev`; the gateway never imports the worker package."""

import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import anyio

from pyoco_gateway.processes.child_process import ChildProcess, child_process
from pyoco_gateway.processes.keep_running import RestartPolicy, keep_running
from pyoco_protocol.problems import CATALOGUE, PyocoError, Texts
from pyoco_protocol.settings import read_environment
from pyoco_protocol.task_groups import plain_errors

DEMO_FLOWS: Final = Path(__file__).parent / "demo" / "flows.py"

_MODULE: Final = "pyoco_worker"
_WORKER_ID: Final = "dev-worker"
_READY: Final = "worker ready"
_READY_TIMEOUT_SEC: Final = 30.0
_GRACE_SEC: Final = 3.0
_POLL_SEC: Final = 0.02
_GATEWAY_ONLY: Final = frozenset({"PYOCO_AUTH_PEPPER"})

_HINT: Final[Texts] = {
    "en": "See the output above; the log file has all of it.",
    "ja": "上記の内容を確認してください。全文はログにあります。",
}


class DevWorkerError(PyocoError):
    """The worker of a development server did not start, or has exited."""

    entry = CATALOGUE["ERR-PYOCO-0112"]

    def __init__(self, cause: str) -> None:
        super().__init__(f"the worker is not running: {cause}", hint=_HINT)


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The worker's command line and log file."""

    command: tuple[str, ...]
    log: Path


def plan_worker(directory: Path, *, nats_url: str, tag: str, concurrency: int | None) -> WorkerPlan:
    """Return the plan for a worker with the demo flows; raise if pyoco-worker is missing."""
    if not _is_installed(_MODULE):
        raise DevWorkerError("pyoco-worker is not installed; run: pip install pyoco-worker")
    command = [
        *(sys.executable, "-m", _MODULE, "--nats-url", nats_url, "--tags", tag),
        *("--worker-id", _WORKER_ID, "--flow-resolver", f"{DEMO_FLOWS}:resolve"),
        *("--data-dir", str(directory / "worker"), "--log-level", "INFO"),
    ]
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    return WorkerPlan(tuple(command), directory / "worker.log")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def dev_worker(plan: WorkerPlan) -> AbstractAsyncContextManager[anyio.Event]:
    """Keep the worker running until the context exits; yield an event, set when it is ready."""
    return keep_running(
        RestartPolicy(name="pyoco-worker", start=lambda: _started(plan), failure=DevWorkerError)
    )


@asynccontextmanager
async def _started(plan: WorkerPlan) -> AsyncGenerator[ChildProcess]:
    async with child_process(
        "pyoco-worker", plan.command, output=plan.log, grace_sec=_GRACE_SEC, env=_environment()
    ) as process:
        await _wait_until_ready(process)
        yield process


def _environment() -> dict[str, str]:
    """Return our environment without secrets that only a gateway needs."""
    return {name: text for name, text in read_environment().items() if name not in _GATEWAY_ONLY}


async def _wait_until_ready(process: ChildProcess) -> None:
    with anyio.move_on_after(_READY_TIMEOUT_SEC), plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_fail_on_exit, process)
            while _READY not in process.written():  # noqa: ASYNC110 - a file has no event
                await anyio.sleep(_POLL_SEC)
            tasks.cancel_scope.cancel()
        return
    raise DevWorkerError(f"it was not ready within {_READY_TIMEOUT_SEC:g} s; see {process.output}")


async def _fail_on_exit(process: ChildProcess) -> None:
    code = await process.wait()
    raise DevWorkerError(f"it exited with {code}: {process.last_lines()}; see {process.output}")
