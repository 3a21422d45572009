"""The command `execution events`."""

import click

from pyoco_client.cli.arguments import execution_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import EVENTS
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    data_output,
    print_json_line,
    print_records,
)
from pyoco_client.cli.examples import EXECUTION_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client execution events {EXECUTION_ID}",
        f"pyoco-client execution events {EXECUTION_ID} --type NODE_FAILED --output table",
        f"pyoco-client execution events {EXECUTION_ID} --after-seq 10 --output jsonl",
    )
)
@execution_id_argument
@click.option(
    "--after-seq", type=click.IntRange(0), default=0, help="Only events after this number."
)
@click.option("--type", "types", multiple=True, help="Only events of this type; repeatable.")
@click.option("--node-id", help="Only events of this node.")
@data_output
@pass_connection
def events(
    connection: Connection,
    *,
    execution_id: str,
    after_seq: int,
    types: tuple[str, ...],
    node_id: str | None,
    form: Form | None,
) -> int:
    """Print the events of an execution."""
    with connection.open() as client:
        found = client.executions.handle(execution_id).events(
            after_seq=after_seq, types=[each.upper() for each in types] or None, node_id=node_id
        )
        if chosen(form) is Form.JSONL:
            # Printed as each page arrives, so that a reader does not wait for the last one.
            for event in found:
                print_json_line(event.as_dict())
        else:
            print_records([event.as_dict() for event in found], form, EVENTS)
    return EXIT_OK
