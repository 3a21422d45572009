"""The command `workers`."""

from typing import Final

import click

from pyoco_client.cli.arguments import UpperChoice
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import WORKERS
from pyoco_client.cli.display.output import Form, data_output, print_records
from pyoco_client.cli.examples import examples

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
    help="Workers that take runs, or all known workers.  [default: active; all with --state]",
)
@click.option("--state", type=UpperChoice(_STATES), help="Only workers in this state.")
@click.option("--include-hidden", is_flag=True, help="Include hidden workers.")
@click.option(
    "--limit", type=click.IntRange(1, 500), help="Maximum number of workers.  [default: 100]"
)
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
    """List the workers and their current runs."""
    with connection.open() as client:
        found = client.workers.list(
            scope=scope, state=state, include_hidden=include_hidden or None, limit=limit
        )
    print_records([each.as_dict() for each in found], form, WORKERS)
    return EXIT_OK
