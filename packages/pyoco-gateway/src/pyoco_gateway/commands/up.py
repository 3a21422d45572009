"""`pyoco-server up`: the gateway, optionally with its own NATS server."""

import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pyoco_gateway.broker.data_directory import locked_directory
from pyoco_gateway.broker.embedded import BrokerPlan, embedded_broker, plan_bootstrap, plan_broker
from pyoco_gateway.commands.signals import run_until_signalled
from pyoco_gateway.http.connection import ConnectionLimits
from pyoco_gateway.http.server import bound_sockets, serving, url_of
from pyoco_gateway.settings import GatewaySettings
from pyoco_protocol.settings import BrokerSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """The NATS server that the command starts."""

    directory: Path
    port: int
    start_timeout_sec: float
    # Whether to start it through the command `nats-bootstrap`.
    by_bootstrap: bool = False


def up(
    settings: GatewaySettings,
    host: str,
    port: int,
    broker: BrokerChoice | None,
    environ: Mapping[str, str],
) -> int:
    """Serve until a signal arrives; return the exit code."""
    with ExitStack() as held:
        # Detect all usage errors before starting anything.
        sockets = held.enter_context(bound_sockets(host, port))
        lock = held.enter_context(locked_directory(broker.directory)) if broker else -1
        plan = planned(broker, environ) if broker else None

        async def serve() -> None:
            async with AsyncExitStack() as running:
                if plan is not None:
                    await running.enter_async_context(embedded_broker(plan, lock=lock))
                served = settings if plan is None else using_broker(settings, plan)
                await running.enter_async_context(gateway(served, sockets))
                await anyio.sleep_forever()

        return run_until_stopped(serve)


def planned(broker: BrokerChoice, environ: Mapping[str, str]) -> BrokerPlan:
    """Return how to start the broker; raise if it cannot start."""
    if not broker.by_bootstrap:
        return plan_broker(
            broker.directory, broker.port, ready_timeout_sec=broker.start_timeout_sec
        )
    return plan_bootstrap(
        broker.directory,
        broker.port,
        ready_timeout_sec=broker.start_timeout_sec,
        environ=environ,
    )


def using_broker(settings: GatewaySettings, plan: BrokerPlan) -> GatewaySettings:
    """Return the settings with the address and the data of the broker that this process starts."""
    broker = BrokerSettings(nats_url=plan.url)
    return replace(settings, broker=broker, broker_store=plan.files.store)


@asynccontextmanager
async def gateway(settings: GatewaySettings, sockets: list[socket.socket]) -> AsyncGenerator[None]:
    """Run the gateway until the context exits; the body starts when it answers requests."""
    # Imported late: this takes long, and the broker and the worker start meanwhile.
    from pyoco_gateway.app import create_app

    url = url_of(sockets)
    limits = ConnectionLimits.of(settings.http)
    try:
        async with serving(create_app(settings), sockets, limits):
            _log.info("gateway ready", extra={"url": url})
            yield
    finally:
        _log.info("gateway stopped", extra={"url": url})


def run_until_stopped(serve: Callable[[], Awaitable[None]]) -> int:
    """Run `serve` in a new event loop until a signal arrives; return the exit code."""
    return anyio.run(run_until_signalled, serve, backend_options={"use_uvloop": True})
