"""The command `execution start`."""

import click

from pyoco_client.cli.arguments import execution_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import Form, print_record, run_output
from pyoco_client.cli.examples import EXECUTION_ID, examples


@click.command(epilog=examples(f"pyoco-client execution start {EXECUTION_ID}"))
@execution_id_argument
@run_output
@pass_connection
def start(connection: Connection, execution_id: str, form: Form | None) -> int:
    """Start an execution created with --no-start.

    A second start has no effect.
    """
    with connection.open() as client:
        answer = client.executions.handle(execution_id).start()
    print_record(answer.as_dict(), form, COMMAND)
    return EXIT_OK
