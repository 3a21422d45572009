"""Broker, gateway and workers for one test, each a real process."""

import json
import os
import random
import shutil
import socket
import tempfile
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
import httpx

from pyoco_testkit.environment import command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.processes import ManagedProcess

START_TIMEOUT: Final = 30.0
# Linux chooses from 32768 on, macOS from 49152 on.
_PORTS: Final = (20_000, 32_000)
TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
# Fields about the run's worker, which change even after the run has ended.
WORKER_FIELDS: Final = frozenset({"worker_alive", "worker_heartbeat_at", "worker_tags"})


class StackClient:
    """A small HTTP client that returns plain dictionaries.

    It does not use the SDK, because an error in both the SDK and the gateway could go unnoticed.
    """

    def __init__(self, base_url: str) -> None:
        self.http = httpx.AsyncClient(base_url=base_url, timeout=10.0, trust_env=False)

    async def submit(
        self, flow: str, tag: str = "default", params: Mapping[str, Any] | None = None
    ) -> str:
        """Submit a run and return its id."""
        body = {"flow_name": flow, "tag": tag, "params": dict(params or {})}
        answer = await self.http.post("/runs", json=body)
        return str(_expect_ok(answer)["run_id"])

    async def get(self, run_id: str, *, include: Sequence[str] = ()) -> dict[str, Any]:
        """Return the snapshot of a run; `include=["records"]` adds its task records."""
        answer = await self.http.get(f"/runs/{run_id}", params={"include": list(include)})
        run = _expect_ok(answer)
        return {name: value for name, value in run.items() if name not in WORKER_FIELDS}

    async def status(self, run_id: str) -> str:
        """Return the status of a run."""
        return str((await self.get(run_id))["status"])

    async def cancel(self, run_id: str) -> dict[str, Any]:
        """Request a cancel and return the snapshot in the answer."""
        return _expect_ok(await self.http.post(f"/runs/{run_id}/cancel"))

    async def wait(
        self, run_id: str, timeout: float = 20.0, *, include: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Wait until a run has a terminal status, and return its snapshot."""

        def ended(snapshot: Mapping[str, Any]) -> bool:
            return snapshot["status"] in TERMINAL

        # During a restart of broker or gateway there is no answer, or a 503.
        return await eventually(
            lambda: self.get(run_id, include=include),
            ended,
            timeout,
            retry_on=(httpx.TransportError, UnavailableError),
        )


class UnavailableError(AssertionError):
    """The gateway answered 503: it cannot reach the broker now."""


def _expect_ok(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise UnavailableError(answer.text)
    assert answer.status_code == httpx.codes.OK, f"{answer.status_code} {answer.text}"
    body: dict[str, Any] = answer.json()
    return body


class Stack:
    """A running broker and gateway; a test starts its own workers.

    All files are in one directory, which is also the working directory of the processes. `env` is
    passed to the gateway and to each worker.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        env: Mapping[str, str] | None = None,
        sync_interval: str | None = None,
        nats_config: str = "",
        nats_config_file: Path | None = None,
    ) -> None:
        self._owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="pyoco-stack-"))
        self.env = dict(env or {})
        self.nats = NatsServer(
            self.directory / "nats",
            sync_interval=sync_interval,
            config=nats_config,
            config_file=nats_config_file,
        )
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = StackClient(self.url)
        self._gateway: ManagedProcess | None = None
        self._workers = 0
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._exits.enter_async_context(self.client.http)
            await self._exits.enter_async_context(self.nats)
            await self.start_gateway()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    @property
    def gateway(self) -> ManagedProcess:
        """The gateway's process."""
        if self._gateway is None:
            raise RuntimeError("the gateway was not started")
        return self._gateway

    async def start_gateway(self) -> ManagedProcess:
        """Start or restart the gateway on the same port, and return when it answers.

        If the broker runs, the gateway can then accept runs.
        """
        if self._gateway is None:
            command = [
                *(str(command_path("pyoco-server")), "up"),
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--log-level", self.env.get("PYOCO_LOG_LEVEL", "info")),
                *("--nats-url", self.nats.url),
            ]
            self._gateway = ManagedProcess("gateway", command, self.directory / "gateway", self.env)
            self._exits.push_async_exit(self._gateway)
        self.gateway.start()
        if self.nats.process.is_running:
            # `/health` does not need the broker; a 404 for an unknown run does.
            path, expected = f"/runs/{uuid.uuid4()}", httpx.codes.NOT_FOUND
        else:
            path, expected = "/health", httpx.codes.OK
        await eventually(lambda: self._answer_of_gateway(path), expected, START_TIMEOUT)
        return self.gateway

    @asynccontextmanager
    async def worker(
        self,
        tags: str | Sequence[str] = "default",
        *,
        flows: str | None = None,
        concurrency: int = 1,
        worker_id: str | None = None,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> AsyncGenerator[ManagedProcess]:
        """Start a worker and wait until it is ready; `flows` is `path/to/file.py:function`.

        `arguments` are added to the command line. Leaving the context stops the worker.
        """
        self._workers += 1
        name = worker_id or f"worker-{self._workers}"
        command = [
            *(str(command_path("pyoco-worker")), "--nats-url", self.nats.url),
            *("--tags", tags if isinstance(tags, str) else ",".join(tags)),
            *("--worker-id", name, "--concurrency", str(concurrency)),
            *(("--flow-resolver", flows) if flows else ()),
            *arguments,
        ]
        process = ManagedProcess(name, command, self.directory / name, {**self.env, **(env or {})})
        async with process:
            await process.wait_for_log("worker ready", START_TIMEOUT)
            yield process

    async def message_count(self, stream: str) -> int:
        """Return the number of messages in a stream of the broker."""
        async with self._broker() as client:
            return int((await client.jetstream().stream_info(stream)).state.messages)

    async def publish_job_again(self, run_id: str) -> None:
        """Publish a second job of a run, as a repeated publish would."""
        run = await self.client.get(run_id)
        names = ("run_id", "flow_name", "tag", "tags", "params", "submitted_at")
        job = json.dumps({name: run[name] for name in names}).encode()
        async with self._broker() as client:
            await client.jetstream().publish(f"pyoco.work.{run['tag']}", job)

    async def dead_letters(self) -> list[dict[str, Any]]:
        """Return all dead letters, the oldest first."""
        async with self._broker() as client:
            js = client.jetstream()
            last = (await js.stream_info("PYOCO_DLQ")).state.last_seq
            return [
                json.loads((await js.get_msg("PYOCO_DLQ", seq)).data) for seq in range(1, last + 1)
            ]

    async def publish_job(self, tag: str, job: bytes) -> None:
        """Publish bytes to the queue of a tag; they need not be a valid job."""
        async with self._broker() as client:
            await client.jetstream().publish(f"pyoco.work.{tag}", job)

    async def add_consumer(self, tag: str, *, max_deliver: int, ack_wait_sec: float) -> None:
        """Create the consumer of a tag with other limits than a worker would choose."""
        config = {
            "durable_name": f"pyoco_workers_{tag}",
            "filter_subject": f"pyoco.work.{tag}",
            "ack_policy": "explicit",
            "ack_wait": round(ack_wait_sec * 1e9),
            "max_deliver": max_deliver,
        }
        async with self._broker() as client:
            await client.request(
                f"$JS.API.CONSUMER.CREATE.PYOCO_WORK.{config['durable_name']}",
                json.dumps({"stream_name": "PYOCO_WORK", "config": config}).encode(),
            )

    @asynccontextmanager
    async def _broker(self) -> AsyncGenerator[Any]:
        # Imported here because pytest loads this module before `--without nats` hides `nats`.
        import nats

        client = await nats.connect(self.nats.url)
        try:
            yield client
        finally:
            await client.close()

    async def _answer_of_gateway(self, path: str) -> int | None:
        self.gateway.check_alive()
        try:
            return (await self.client.http.get(path)).status_code
        except httpx.TransportError:
            return None

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._exits.aclose()
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)


def free_port() -> int:
    """Return a port on which no process listens.

    It is below the ports that systems choose for connections and for port 0, so that only another
    call of this function could take it before the server that is to listen on it.
    """
    while True:
        port = random.randint(*_PORTS)  # noqa: S311 - not a secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def flows_at(path: str | os.PathLike[str], function: str = "resolve") -> str:
    """Return the `flows` argument of `Stack.worker` for a function in a file."""
    return f"{Path(path).resolve()}:{function}"
