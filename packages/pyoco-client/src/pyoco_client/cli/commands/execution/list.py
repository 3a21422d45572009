"""The command `execution list`."""

from typing import Any

import click

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import EXECUTIONS
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    data_output,
    print_json_line,
    print_line,
    print_records,
)
from pyoco_client.cli.examples import examples
from pyoco_client.cli.execution_filters import execution_filter_options


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
    type=click.IntRange(1, 200),
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
    if everything and limit is not None:
        raise BadArgumentError(
            "--limit and --all exclude each other", "pyoco-client execution list --all -o jsonl"
        )
    with connection.open() as client:
        if not everything:
            found = client.executions.list(limit=limit, **filters)
            print_records([item.as_dict() for item in found], form, EXECUTIONS)
            return EXIT_OK
        items = client.executions.iter(**filters)
        if (form := chosen(form)) in (Form.JSONL, Form.NAME):
            # Printed as each page arrives, so that a reader does not wait for the last one.
            for item in items:
                if form is Form.NAME:
                    print_line(item.execution_id)
                else:
                    print_json_line(item.as_dict())
        else:
            print_records([item.as_dict() for item in items], form, EXECUTIONS)
    return EXIT_OK
