"""The command `execution get`."""

import click

from pyoco_client.cli.arguments import execution_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import EXECUTION, NODES
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    print_line,
    print_record,
    print_records,
    run_output,
)
from pyoco_client.cli.examples import EXECUTION_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client execution get {EXECUTION_ID}",
        f"pyoco-client execution get {EXECUTION_ID} --values --output json",
        f"pyoco-client execution get {EXECUTION_ID} --at-seq 3 --output table",
    )
)
@execution_id_argument
@click.option("--at-seq", type=click.IntRange(1), help="The state right after this event.")
@click.option("--values", is_flag=True, help="Include input, outputs, prompts and the result.")
@run_output
@pass_connection
def get(
    connection: Connection, execution_id: str, at_seq: int | None, values: bool, form: Form | None
) -> int:
    """Print the state of an execution and its nodes."""
    with connection.open() as client:
        execution = client.executions.get(execution_id, at_seq=at_seq, include_values=values)
    record = execution.as_dict()
    print_record(record, form, EXECUTION)
    if chosen(form) in (Form.TABLE, Form.WIDE):
        print_line("")
        print_records(record["nodes"], form, NODES)
    return EXIT_OK
