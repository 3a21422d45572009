"""`pyoco-server up` as a process: start, stop, and no leftover processes."""

import json
import os
import signal
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import pytest

from pyoco_testkit.environment import clean_environment, command_path
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer, nats_server_binary
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import free_port

# Like `nats-bootstrap`: starts nats-server as a child with the arguments after `--`, and does
# not stop the child when it is stopped itself.
BOOTSTRAP = f"""#!/bin/sh
[ "$1 $2" = "up --" ] || exit 64
shift 2
{nats_server_binary()} "$@" &
trap 'exit 0' TERM
wait
"""


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Server:
    """A `pyoco-server up` on free ports, with its broker's data in one directory."""

    def __init__(self, directory: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.data = directory / "data"
        own = ("--with-nats", "--with-nats-bootstrap")
        broker = ("--nats-port", "0", "--data-dir", str(self.data))
        command = [
            *(str(command_path("pyoco-server")), "up", "--port", "0", *arguments),
            *(broker if set(own) & set(arguments) else ()),
        ]
        self.process = ManagedProcess("pyoco-server", command, directory / "up", env)

    async def ready(self) -> httpx.AsyncClient:
        """Return a client once the server answers."""
        seen = 0
        if not self.process.is_running:
            seen = len(self.process.log().splitlines())
            self.process.start()

        def url() -> str | None:
            self.process.check_alive()
            for line in self.process.log().splitlines()[seen:]:
                if '"gateway ready"' in line:
                    return str(json.loads(line)["url"])
            return None

        found = await eventually(url, lambda text: text is not None, timeout=20)
        return httpx.AsyncClient(base_url=str(found), timeout=20, trust_env=False)

    @property
    def broker_pid(self) -> int:
        return int((self.data / "nats-server.pid").read_text())


async def submit(http: httpx.AsyncClient) -> str | None:
    answer = await http.post("/runs", json={"flow_name": "hello"})
    return answer.json()["run_id"] if answer.status_code == 200 else None


def accepted(run_id: str | None) -> bool:
    return run_id is not None


@asynccontextmanager
async def server(
    tmp_path: Path, *arguments: str, env: dict[str, str] | None = None
) -> AsyncGenerator[tuple[Server, httpx.AsyncClient]]:
    started = Server(tmp_path, *arguments, env=env)
    async with started.process, await started.ready() as http:
        yield started, http


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncGenerator[tuple[Server, httpx.AsyncClient, str]]:
    """Yield a server with an embedded broker and one submitted run."""
    async with server(tmp_path, "--with-nats") as (started, http):
        run_id = await eventually(lambda: submit(http), accepted)
        yield started, http, str(run_id)


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Return the variables that the system shows to the user of the process."""
    try:
        return process.environ()
    except psutil.AccessDenied:
        return {}


async def test_the_system_does_not_show_the_pepper_to_other_processes(tmp_path: Path) -> None:
    env = {"PYOCO_AUTH_PEPPER": "a-pepper-of-enough-characters"}
    async with server(tmp_path, "--with-nats", env=env) as (started, _):
        gateway = psutil.Process(started.process.pid)
        family = [gateway, *gateway.children(recursive=True)]
        shown = [each.name() for each in family if env.items() <= environment_of(each).items()]
    assert len(family) > 2
    assert shown == []


async def test_health_knows_the_free_space_of_the_broker_that_the_server_started(
    embedded: Any,
) -> None:
    _, http, _ = embedded

    async def growth() -> dict[str, Any] | None:
        executions = (await http.get("/health?verbose=1")).json()["executions"]
        return dict(executions["growth"]) if executions["growth"] else None

    found = await eventually(growth, lambda each: each is not None)
    assert found["free_bytes"] > 0


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)]
)
async def test_a_signal_stops_gateway_and_broker_in_order(
    embedded: Any, signum: signal.Signals, code: int
) -> None:
    started, _, _ = embedded
    broker = started.broker_pid

    started.process.send(signum)

    assert await started.process.wait() == code
    assert not lives(broker)
    # The broker stops last, because the gateway needs it until then.
    assert "broker connection lost" not in started.process.log()


async def test_ctrl_c_in_a_terminal_does_not_reach_the_broker_first(embedded: Any) -> None:
    """A terminal signals the whole foreground group at once."""
    started, _, _ = embedded
    broker = started.broker_pid

    os.killpg(started.process.pid, signal.SIGINT)

    assert await started.process.wait() == 130
    assert not lives(broker)
    assert "broker connection lost" not in started.process.log()


async def test_a_killed_server_can_be_restarted_at_once(
    embedded: Any,
) -> None:
    """The old broker stops slowly and still uses the data: the new one must wait for it."""
    started, _, run_id = embedded
    broker = started.broker_pid
    psutil.Process(broker).suspend()

    started.process.kill()
    async with await started.ready() as http:
        assert not lives(broker)
        assert started.broker_pid != broker
        known = await eventually(lambda: http.get(f"/runs/{run_id}"), ok)

    assert known.json()["status"] == "PENDING"


def ok(answer: httpx.Response) -> bool:
    return answer.status_code == 200


async def test_a_killed_server_leaves_no_broker_behind(embedded: Any) -> None:
    started, _, _ = embedded
    broker = started.broker_pid

    started.process.kill()

    await eventually(lambda: lives(broker), False)


async def test_a_broker_that_crashes_is_restarted_with_its_data(embedded: Any) -> None:
    started, http, run_id = embedded
    broker = started.broker_pid

    psutil.Process(broker).kill()

    # The file is empty while it is being written.
    await eventually(lambda: started.broker_pid, lambda pid: pid != broker, retry_on=(ValueError,))
    await eventually(lambda: submit(http), accepted, timeout=20)
    assert (await http.get(f"/runs/{run_id}")).json()["status"] == "PENDING"
    assert "process exited and is restarted" in started.process.log()


async def test_a_broker_that_cannot_be_restarted_ends_the_server(embedded: Any) -> None:
    started, _, _ = embedded
    store = started.data / "jetstream"
    store.rename(started.data / "elsewhere")
    store.write_text("not a directory")

    psutil.Process(started.broker_pid).kill()

    assert await started.process.wait(30) == 1
    # The message and the hint of the error follow.
    assert "ERR-PYOCO-0112" in started.process.log().splitlines()[-3]


async def test_a_frozen_embedded_broker_does_not_prevent_a_stop(embedded: Any) -> None:
    started, _, _ = embedded
    broker = started.broker_pid
    psutil.Process(broker).suspend()

    started.process.terminate()

    assert await started.process.wait() == 0
    assert not lives(broker)


async def test_a_second_signal_ends_the_server_at_once_and_leaves_no_broker(embedded: Any) -> None:
    started, _, _ = embedded
    broker = started.broker_pid
    psutil.Process(broker).suspend()

    started.process.interrupt()
    await started.process.wait_for_log('"gateway stopped"')
    assert lives(broker)
    started.process.interrupt()

    assert await started.process.wait(2) == 130
    await eventually(lambda: lives(broker), False)


async def test_a_signal_before_the_broker_is_ready_stops_the_server(
    tmp_path: Path, bootstrap_path: Path
) -> None:
    write_command(bootstrap_path, "#!/bin/sh\necho $$ > bootstrap.pid\nexec sleep 60\n")
    waiting = Server(tmp_path, "--with-nats-bootstrap", env=path_with(bootstrap_path))
    pid_file = waiting.process.directory / "bootstrap.pid"
    async with waiting.process:
        bootstrap = int(
            await eventually(
                pid_file.read_text, lambda text: text.strip(), retry_on=(FileNotFoundError,)
            )
        )
        waiting.process.terminate()
        assert await waiting.process.wait() == 0

    assert not lives(bootstrap)


async def test_a_second_server_on_the_same_data_names_the_process_that_holds_it(
    tmp_path: Path, embedded: Any
) -> None:
    started, _, _ = embedded
    second = Server(tmp_path / "second", "--with-nats", "--data-dir", str(started.data))
    second.process.command = (*second.process.command[:-1], str(started.data))
    async with second.process:
        assert await second.process.wait() == 1

    assert f"is in use by process {started.process.pid}" in second.process.log()


async def test_a_frozen_external_broker_does_not_prevent_a_stop(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """Waiting requests are answered: a dropped caller would submit its run again."""
    async with server(tmp_path, "--nats-url", nats_server.url) as (started, http):
        await eventually(lambda: submit(http), accepted)
        nats_server.pause()
        answers: list[httpx.Response] = []

        async def call(method: str, path: str, body: object) -> None:
            answers.append(await http.request(method, path, json=body))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "POST", "/runs", {"flow_name": "hello"})
            tasks.start_soon(call, "GET", "/runs/7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4", None)
            await eventually(
                lambda: len(psutil.Process(started.process.pid).net_connections()),
                lambda connections: connections >= 4,
            )
            stopping = time.monotonic()
            started.process.terminate()
            assert await started.process.wait() == 0
            # The documented limit is two seconds; the third is for a busy machine.
            assert time.monotonic() - stopping < 3

    assert {answer.status_code for answer in answers} == {503}
    ids = {answer.json()["err_id"]: answer.json() for answer in answers}
    assert set(ids) == {"ERR-PYOCO-0003", "ERR-PYOCO-0107"}
    assert ids["ERR-PYOCO-0107"]["run_id"]


@pytest.fixture
def bootstrap_path(tmp_path: Path) -> Path:
    """Return a folder for PATH that contains a `nats-bootstrap`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_command(folder, BOOTSTRAP)
    return folder


def write_command(folder: Path, script: str) -> None:
    command = folder / "nats-bootstrap"
    command.write_text(script)
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def path_with(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}{os.pathsep}{clean_environment()['PATH']}"}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
async def test_a_bootstrapped_broker_ends_with_the_server(
    tmp_path: Path, bootstrap_path: Path, signum: signal.Signals
) -> None:
    env = path_with(bootstrap_path)
    async with server(tmp_path, "--with-nats-bootstrap", env=env) as (started, http):
        await eventually(lambda: submit(http), accepted)
        broker = started.broker_pid
        started.process.send(signum)
        await started.process.wait()

        await eventually(lambda: lives(broker), False)


@pytest.mark.parametrize(
    ("script", "arguments", "reason"),
    [
        ("#!/bin/sh\necho no server here >&2\nexit 2\n", (), "exited with 2: no server here"),
        (
            "#!/bin/sh\nexec sleep 60\n",
            ("--nats-start-timeout-sec", "0.3"),
            "did not answer on 127.0.0.1",
        ),
    ],
)
async def test_a_bootstrap_that_fails_ends_the_server_with_its_output(
    tmp_path: Path, bootstrap_path: Path, script: str, arguments: tuple[str, ...], reason: str
) -> None:
    write_command(bootstrap_path, script)
    env = path_with(bootstrap_path)
    failing = Server(tmp_path, "--with-nats-bootstrap", *arguments, env=env)
    async with failing.process:
        assert await failing.process.wait() == 1

    assert reason in failing.process.log()
    assert "ERR-PYOCO-0112" in failing.process.log()


async def test_a_busy_port_is_detected_before_the_bootstrap_starts(
    tmp_path: Path, bootstrap_path: Path, nats_server: NatsServer
) -> None:
    failing = Server(tmp_path, "--with-nats-bootstrap", env=path_with(bootstrap_path))
    failing.process.command = (*failing.process.command, "--nats-port", str(nats_server.port))
    async with failing.process:
        assert await failing.process.wait() == 1

    assert f"port {nats_server.port} is in use" in failing.process.log()
    assert "--nats-port" in failing.process.log()


async def test_a_reachable_address_needs_insecure_and_prints_a_warning(tmp_path: Path) -> None:
    all_addresses = "0.0.0.0"  # noqa: S104 - to see the warning
    nats_url = f"nats://127.0.0.1:{free_port()}"
    arguments = ("--host", all_addresses, "--insecure", "--nats-url", nats_url)
    async with server(tmp_path, *arguments) as (started, http):
        port = http.base_url.port
        async with httpx.AsyncClient(trust_env=False) as caller:
            answer = await caller.get(f"http://127.0.0.1:{port}/health")

    assert answer.status_code == 200
    assert "authentication is off on an address that others can reach" in started.process.log()
