"""`pyoco-server dev`: a NATS server, the gateway and a worker with demo flows."""

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
from pyoco_gateway.commands.up import gateway, run_until_stopped, using_broker
from pyoco_gateway.http.server import bound_sockets, url_of
from pyoco_gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class DevOptions:
    """The options of the command."""

    host: str
    port: int
    nats_port: int
    directory: Path
    clean: bool
    concurrency: int | None
    start_timeout_sec: float


def dev(settings: GatewaySettings, options: DevOptions, started_at: float) -> int:
    """Run all three until a signal arrives; return the exit code.

    `started_at` is the start of the command on the monotonic clock.
    """
    directory = options.directory.resolve()
    with ExitStack() as held:
        # Detect all usage errors before starting anything.
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
        served = using_broker(settings, broker)

        async def serve() -> None:
            # The gateway is innermost and stops first, while broker and worker still run.
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

        code = run_until_stopped(serve)
    click.echo("Stopped.")
    return code


def banner(
    url: str, nats_url: str, directory: Path, *, took_sec: float, client: str = "pyoco-client"
) -> str:
    """Return the text printed when everything is ready: addresses and first commands."""
    server = "" if url == "http://127.0.0.1:8000" else f" --server {url}"
    return f"""
Pyoco Server {__version__} is ready ({took_sec:.1f} s)

  HTTP API   {url}
  NATS       {nats_url}
  Flows      hello (three tasks), countdown (long), broken (fails)
  Data       {directory}  (worker.log, nats-server.log; --clean deletes it)

Submit a run, in another terminal:

  {client}{server} submit --flow-name hello --param name=Pyoco --wait

or with curl:

  curl {url}/runs -H 'Content-Type: application/json' \\
       -d '{{"flow_name": "hello", "params": {{"name": "Pyoco"}}}}'
  curl '{url}/runs/<run_id>?include=records'
  curl -N {url}/runs/<run_id>/watch
  curl -X POST {url}/runs/<run_id>/cancel

Or open {url}/ in a browser.

Press Ctrl-C to stop everything.
"""


def client_command(executable: Path, here: Path) -> str:
    """Return the command that starts the client in another terminal, in the same directory."""
    beside = executable.parent / "pyoco-client"
    if beside.exists() and beside.is_relative_to(here):
        # The other terminal may not have activated this virtual environment.
        return str(beside.relative_to(here))
    return "pyoco-client"
