"""The command `execution list`."""

from typing import Any

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import EXECUTIONS
from pyoco_client.cli.display.output import Form, data_output
from pyoco_client.cli.examples import examples
from pyoco_client.cli.execution_filters import execution_filter_options
from pyoco_client.cli.lists import MAX_LIMIT, check_all, note_rest, print_items


@click.command(
    epilog=examples(
        "pyoco-client execution list --status ACTIVE --graph-id order-intake",
        "pyoco-client execution list --label vip --archived any --output wide",
        "pyoco-client execution list --all --output name",
    )
)
@execution_filter_options
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    help="Maximum number of executions, 1 to 200.  [default: 50]",
)
@click.option(
    "--all", "everything", is_flag=True, help="All matching executions, the latest one first."
)
@data_output
@pass_connection
def list_executions(
    connection: Connection,
    *,
    filters: dict[str, Any],
    limit: int | None,
    everything: bool,
    form: Form | None,
) -> int:
    """List executions, the latest change first."""
    check_all(everything=everything, limit=limit, command="execution list")
    with connection.open() as client:
        if everything:
            items = client.executions.iter(**filters)
            print_items(items, form, EXECUTIONS, lambda item: item.execution_id)
            return EXIT_OK
        page = client.executions.page(limit=limit, **filters)
    print_items(page.items, form, EXECUTIONS, lambda item: item.execution_id)
    note_rest("executions", shown=len(page.items), cursor=page.next_cursor)
    return EXIT_OK
