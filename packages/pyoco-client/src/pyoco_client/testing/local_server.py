"""A complete Pyoco Server on this machine for the duration of a test."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from pyoco_client import AsyncClient, Client, environment
from pyoco_client.errors import PyocoError, RunNotFoundError

_NEEDED: Final = {
    "pyoco_gateway": '"pyoco-gateway[nats]"',
    "pyoco_worker": "pyoco-worker",
}
_POLL_SEC: Final = 0.05
_STOP_SEC: Final = 10.0
_TAIL_CHARS: Final = 4000


class LocalServerError(PyocoError):
    """The server did not start: something is not installed, or one of its processes ended."""


class LocalServer:
    """A broker, a gateway and a worker, each in a process; leaving the context stops them.

    `flows` is the value of `pyoco-worker --flow-resolver`: `module:function` or
    `path/to/file.py:function`. `env` holds settings of gateway and worker; those in the caller's
    environment are not passed on. Data goes to `directory`, or to a temporary directory.
    """

    def __init__(
        self,
        flows: str | None = None,
        *,
        tags: Sequence[str] = ("default",),
        concurrency: int = 1,
        env: Mapping[str, str] | None = None,
        directory: Path | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self._flows = flows
        self._tags = tags
        self._concurrency = concurrency
        self._env = dict(env or {})
        self._directory = directory
        self._start_timeout = start_timeout
        self._exits = ExitStack()
        self.directory = Path()
        self.url = ""
        self.nats_url = ""

    def __enter__(self) -> Self:
        for module, distribution in _NEEDED.items():
            if not _is_installed(module):
                raise LocalServerError(
                    f"a local server needs {module.replace('_', '-')}, which is not installed",
                    hint=f"Run: pip install {distribution}",
                )
        try:
            self._start()
        except BaseException:
            self._exits.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def client(self) -> Client:
        """Return a client of this server; the caller closes it."""
        return Client(self.url)

    def async_client(self) -> AsyncClient:
        """Return an async client of this server; the caller closes it."""
        return AsyncClient(self.url)

    def logs(self) -> str:
        """Return the log output of all processes so far."""
        return "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(self.directory.glob("*.log"))
        )

    def _start(self) -> None:
        if self._directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="pyoco-local-"))
            self._exits.callback(shutil.rmtree, self.directory, ignore_errors=True)
        else:
            self.directory = self._directory
            self.directory.mkdir(parents=True, exist_ok=True)
        port, nats_port = _free_ports(2)
        self.url, self.nats_url = f"http://127.0.0.1:{port}", f"nats://127.0.0.1:{nats_port}"
        end_at = time.monotonic() + self._start_timeout
        gateway = self._run(
            "gateway",
            *("pyoco_gateway", "up", "--port", str(port), "--with-nats"),
            *("--nats-port", str(nats_port), "--data-dir", str(self.directory / "server")),
        )
        with Client(self.url, deadline=0, timeout=5.0) as client:
            # Looks up a run that does not exist, because only that request needs the broker.
            self._await(lambda: _answers(client), gateway, end_at)
            worker = self._run(
                "worker",
                *("pyoco_worker", "--nats-url", self.nats_url, "--tags", ",".join(self._tags)),
                *("--concurrency", str(self._concurrency)),
                *("--data-dir", str(self.directory / "worker")),
                *(() if self._flows is None else ("--flow-resolver", self._flows)),
            )
            self._await(lambda: _has_a_worker(client), worker, end_at)

    def _run(self, name: str, *module_and_arguments: str) -> "_Process":
        inherited = {
            key: value
            for key, value in environment.variables().items()
            if not key.startswith("PYOCO_")
        }
        env = {**inherited, "PYOCO_LOAD_DOTENV": "0", **self._env}
        process = _Process(
            name,
            [sys.executable, "-m", *module_and_arguments],
            self.directory / f"{name}.log",
            env,
        )
        self._exits.callback(process.stop)
        return process

    def _await(self, is_ready: Callable[[], bool], process: "_Process", end_at: float) -> None:
        while not is_ready():
            process.check()
            if time.monotonic() > end_at:
                raise LocalServerError(
                    f"the {process.name} was not ready within {self._start_timeout:g} s\n"
                    f"{process.tail()}"
                )
            time.sleep(_POLL_SEC)


class _Process:
    """A process with its output in a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
            )

    def check(self) -> None:
        """Raise LocalServerError if the process has ended."""
        if (code := self._popen.poll()) is not None:
            raise LocalServerError(f"the {self.name} ended with {code}\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of the output."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:]

    def stop(self) -> None:
        """Terminate the process; kill it if it does not end in time."""
        self._popen.terminate()
        try:
            self._popen.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _answers(client: Client) -> bool:
    try:
        client.run(str(uuid.uuid4())).get()
    except RunNotFoundError:
        return True
    except PyocoError:
        return False
    return True


def _has_a_worker(client: Client) -> bool:
    try:
        return bool(client.workers.list())
    except PyocoError:
        return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
