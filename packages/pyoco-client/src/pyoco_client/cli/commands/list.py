"""The command `list`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUNS
from pyoco_client.cli.display.output import Form, data_output, print_records
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lists import check_all, print_items
from pyoco_client.cli.run_filters import RunListOptions, list_options


@click.command(
    epilog=examples(
        "pyoco-client list --status FAILED --limit 20",
        "pyoco-client list --flow 'hel*' --output json",
        "pyoco-client list --status RUNNING --status PENDING --output name",
        "pyoco-client list --all --output jsonl",
    ),
)
@list_options
@click.option(
    "--all", "everything", is_flag=True, help="All matching runs, the latest submission first."
)
@data_output
@pass_connection
def list_runs(
    connection: Connection, *, query: RunListOptions, everything: bool, form: Form | None
) -> int:
    """List runs, the latest change first."""
    check_all(everything=everything, limit=query["limit"], command="list")
    with connection.open() as client:
        if not everything:
            print_records([item.as_dict() for item in client.runs.list(**query)], form, RUNS)
            return EXIT_OK
        items = client.runs.iter(
            status=query["status"],
            flow=query["flow"],
            tag=query["tag"],
            include=query["include"],
        )
        print_items(items, form, RUNS, lambda item: item.run_id)
    return EXIT_OK
