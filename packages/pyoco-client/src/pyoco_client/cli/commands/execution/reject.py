"""The command `execution reject`."""

import click

from pyoco_client.cli.arguments import execution_id_argument, node_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import Form, print_record, run_output
from pyoco_client.cli.examples import EXECUTION_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client execution reject {EXECUTION_ID} payment --message 'not in stock'"
    )
)
@execution_id_argument
@node_id_argument
@click.option("--message", help="The reason, which is the message of the error.")
@run_output
@pass_connection
def reject(
    connection: Connection,
    *,
    execution_id: str,
    node_id: str,
    message: str | None,
    form: Form | None,
) -> int:
    """Reject a waiting node, which then fails.

    Its error code is REJECTED. The graph decides what follows.
    """
    with connection.open() as client:
        answer = client.waits.reject(execution_id, node_id, message)
    print_record(answer.as_dict(), form, COMMAND)
    return EXIT_OK
