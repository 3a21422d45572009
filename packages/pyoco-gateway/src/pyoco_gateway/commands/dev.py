"""`pyoco-server dev`: broker, gateway and one worker with demo flows, in one command."""

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import click

from pyoco_gateway import __version__
from pyoco_gateway.broker.data_directory import locked_directory
from pyoco_gateway.broker.embedded import embedded_broker, plan_broker
from pyoco_gateway.commands.dev_worker import dev_worker, plan_worker
from pyoco_gateway.commands.up import gateway, run_command, using_broker
from pyoco_gateway.http.server import bound_sockets, url_of
from pyoco_gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class DevOptions:
    """What the command was told."""

    host: str
    port: int
    nats_port: int
    directory: Path
    clean: bool
    concurrency: int | None
    start_timeout_sec: float


def dev(settings: GatewaySettings, options: DevOptions, started_at: float) -> int:
    """Run all three until a signal comes; return the exit code.

    `started_at` is when the command was given, on the monotonic clock.
    """
    directory = options.directory.resolve()
    with ExitStack() as held:
        # All that can be refused is refused before anything is started.
        sockets = held.enter_context(bound_sockets(options.host, options.port))
        lock = held.enter_context(locked_directory(directory, clean=options.clean))
        broker = plan_broker(
            directory, options.nats_port, ready_timeout_sec=options.start_timeout_sec
        )
        worker = plan_worker(
            directory,
            nats_url=broker.url,
            tag=settings.topology.default_tag,
            concurrency=options.concurrency,
        )
        served = using_broker(settings, broker.url)

        async def serve() -> None:
            # The gateway inside: it stops first, so that no caller meets half a server.
            async with (
                embedded_broker(broker, lock=lock),
                dev_worker(worker) as worker_ready,
                gateway(served, sockets),
            ):
                await worker_ready.wait()
                click.echo(
                    banner(
                        url_of(sockets),
                        broker.url,
                        options.directory,
                        took_sec=time.monotonic() - started_at,
                        client=client_command(Path(sys.executable), Path.cwd()),
                    )
                )
                await anyio.sleep_forever()

        code = run_command(serve)
    click.echo("Stopped.")
    return code


def banner(
    url: str, nats_url: str, directory: Path, *, took_sec: float, client: str = "pyoco-client"
) -> str:
    """Return what to say when everything is ready: where it is, and what to type next."""
    server = "" if url == "http://127.0.0.1:8000" else f" --server {url}"
    return f"""
Pyoco Server {__version__} is ready ({took_sec:.1f} s)

  HTTP API   {url}
  NATS       {nats_url}
  Flows      hello (several steps), countdown (long), broken (fails)
  Data       {directory}  (worker.log, nats-server.log; --clean forgets it)

Submit a run, in another terminal:

  {client}{server} submit --flow-name hello --param name=Pyoco --wait

or with curl:

  curl {url}/runs -H 'Content-Type: application/json' \\
       -d '{{"flow_name": "hello", "params": {{"name": "Pyoco"}}}}'
  curl '{url}/runs/<run_id>?include=records'
  curl -N {url}/runs/<run_id>/watch
  curl -X POST {url}/runs/<run_id>/cancel

Look at everything in a browser, beginning at {url}/

Ctrl-C stops everything.
"""


def client_command(executable: Path, here: Path) -> str:
    """Return how the client is called from another terminal, opened in the same directory."""
    beside = executable.parent / "pyoco-client"
    if beside.exists() and beside.is_relative_to(here):
        # An environment of this directory's own, which the other terminal may not have entered.
        return str(beside.relative_to(here))
    return "pyoco-client"
