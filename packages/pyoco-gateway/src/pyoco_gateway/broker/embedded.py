"""Runs nats-server as a child process; restarts it when it exits."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from pyoco_gateway.broker.binary import find_nats_bootstrap, find_nats_server, with_our_commands
from pyoco_gateway.broker.config_file import LOOPBACK, BrokerFiles, broker_config
from pyoco_gateway.broker.ports import free_port
from pyoco_gateway.broker.readiness import wait_until_ready
from pyoco_gateway.processes.child_process import ChildProcess, child_process
from pyoco_gateway.processes.keep_running import RestartPolicy, keep_running
from pyoco_protocol.problems import EmbeddedBrokerError
from pyoco_protocol.settings import read_environment

_GRACE_SEC: Final = 3.0


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """The command, files and port of a broker; complete before anything is started."""

    command: tuple[str, ...]
    files: BrokerFiles
    port: int
    ready_timeout_sec: float
    env: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """Name in logs."""
        return Path(self.command[0]).name

    @property
    def url(self) -> str:
        """URL for clients."""
        return f"nats://{LOOPBACK}:{self.port}"


def plan_broker(directory: Path, port: int, *, ready_timeout_sec: float) -> BrokerPlan:
    """Return the plan for the installed nats-server; raise if it cannot start."""
    files = BrokerFiles(directory)
    return BrokerPlan(
        command=(str(find_nats_server()), "--config", str(files.config)),
        files=files,
        port=free_port(LOOPBACK, port, flag="--nats-port"),
        ready_timeout_sec=ready_timeout_sec,
    )


def plan_bootstrap(
    directory: Path, port: int, *, ready_timeout_sec: float, environ: Mapping[str, str]
) -> BrokerPlan:
    """Return the plan for a nats-server that the command `nats-bootstrap` finds and starts."""
    files = BrokerFiles(directory)
    search_path = environ.get("PATH", "")
    bootstrap = find_nats_bootstrap(search_path)
    return BrokerPlan(
        # nats-bootstrap passes the arguments after `--` to nats-server.
        command=(str(bootstrap), "up", "--", "--config", str(files.config)),
        files=files,
        port=free_port(LOOPBACK, port, flag="--nats-port"),
        ready_timeout_sec=ready_timeout_sec,
        env={**environ, "PATH": with_our_commands(search_path)},
    )


@asynccontextmanager
async def embedded_broker(plan: BrokerPlan, *, lock: int) -> AsyncGenerator[None]:
    """Run the broker until the context exits; the body starts when it is ready.

    The broker is restarted when it exits. If that fails, EmbeddedBrokerError is raised in the
    context's body. `lock` is held until the broker has ended, even if this process is killed.
    """
    policy = RestartPolicy(
        name=plan.name, start=lambda: _started(plan, lock), failure=EmbeddedBrokerError
    )
    async with keep_running(policy) as ready:
        await ready.wait()
        yield


@asynccontextmanager
async def _started(plan: BrokerPlan, lock: int) -> AsyncGenerator[ChildProcess]:
    config = broker_config(plan.files, plan.port)
    await anyio.Path(plan.files.config).write_text(config, encoding="utf-8")
    async with child_process(
        plan.name,
        plan.command,
        output=plan.files.output,
        grace_sec=_GRACE_SEC,
        # nats-server needs no settings of ours. Flows on this machine can read its environment.
        env={
            name: value
            for name, value in (plan.env or read_environment()).items()
            if not name.startswith("PYOCO_")
        },
        keep_open=[lock],
    ) as process:
        await wait_until_ready(
            process,
            LOOPBACK,
            plan.port,
            timeout_sec=plan.ready_timeout_sec,
            log=str(plan.files.log),
        )
        yield process
