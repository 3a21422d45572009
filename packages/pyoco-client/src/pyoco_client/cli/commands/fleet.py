"""Commands about the server and its workers: workers, worker, queues, metrics, health."""

from typing import Final

import click

from pyoco_client.cli.arguments import BadArgumentError, UpperChoice
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import HEALTH, PATCHED, QUEUES, WORKERS
from pyoco_client.cli.display.output import (
    Form,
    data_output,
    print_line,
    print_record,
    print_records,
)
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import HelpfulGroup

_STATES: Final = ("RUNNING", "IDLE", "STOPPED_GRACEFUL", "DISCONNECTED")


@click.command(
    epilog=examples(
        "pyoco-client workers --scope all --include-hidden",
        "pyoco-client workers --state IDLE --limit 10 --output table",
    )
)
@click.option(
    "--scope",
    type=click.Choice(["active", "all"]),
    help="Those that take runs, or all that are known.  [default: active; all with --state]",
)
@click.option(
    "--state",
    type=UpperChoice(_STATES),
    help="Only workers in this state.",
)
@click.option("--include-hidden", is_flag=True, help="Hidden ones too.")
@click.option("--limit", type=click.IntRange(1, 500), help="How many at most.  [default: 100]")
@data_output
@pass_connection
def workers(
    connection: Connection,
    *,
    scope: str | None,
    state: str | None,
    include_hidden: bool,
    limit: int | None,
    form: Form | None,
) -> int:
    """List the workers, and at what they work."""
    with connection.open() as client:
        found = client.workers.list(
            scope=scope, state=state, include_hidden=include_hidden or None, limit=limit
        )
    print_records([each.as_dict() for each in found], form, WORKERS)
    return EXIT_OK


@click.group(
    cls=HelpfulGroup, no_args_is_help=False, epilog=examples("pyoco-client worker hide worker-1")
)
def worker() -> None:
    """Hide a worker from lists, or show it again.

    Hiding changes lists and nothing else: the worker works on.
    """


@worker.command(epilog=examples("pyoco-client worker hide worker-1"))
@click.argument("worker_id")
@data_output
@pass_connection
def hide(connection: Connection, worker_id: str, form: Form | None) -> int:
    """Take a worker out of lists."""
    with connection.open() as client:
        patched = client.workers.hide(_checked(worker_id))
    print_record(patched.as_dict(), form, PATCHED)
    return EXIT_OK


@worker.command(epilog=examples("pyoco-client worker show worker-1"))
@click.argument("worker_id")
@data_output
@pass_connection
def show(connection: Connection, worker_id: str, form: Form | None) -> int:
    """Show a worker in lists again."""
    with connection.open() as client:
        patched = client.workers.show(_checked(worker_id))
    print_record(patched.as_dict(), form, PATCHED)
    return EXIT_OK


def _checked(worker_id: str) -> str:
    # An empty or dotted part would quietly become another path.
    if not worker_id.strip("."):
        raise BadArgumentError(f"{worker_id!r} is not a worker id")
    return worker_id


@click.command(epilog=examples("pyoco-client queues", "pyoco-client queues --output table"))
@data_output
@pass_connection
def queues(connection: Connection, form: Form | None) -> int:
    """List what waits for which tag."""
    with connection.open() as client:
        found = client.queues.list()
    print_records([each.as_dict() for each in found], form, QUEUES)
    return EXIT_OK


@click.command(
    epilog=examples(
        "pyoco-client metrics",
        "pyoco-client metrics | grep pyoco_runs_total",
    )
)
@pass_connection
def metrics(connection: Connection) -> int:
    """Print the metrics of the gateway.

    They are in the text format of Prometheus, 0.0.4.
    """
    with connection.open() as client:
        page = client.metrics()
    print_line(page.rstrip("\n"))
    return EXIT_OK


@click.command(
    epilog=examples(
        "pyoco-client --server http://127.0.0.1:8000 health",
        "pyoco-client health --verbose --output json",
    )
)
@click.option("--verbose", is_flag=True, help="Also how everything behind the gateway is.")
@data_output
@pass_connection
def health(connection: Connection, verbose: bool, form: Form | None) -> int:
    """Print whether the gateway serves requests."""
    with connection.open() as client:
        answer = client.health(verbose)
    print_record(answer.as_dict(), form, HEALTH)
    return EXIT_OK
