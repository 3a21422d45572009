"""The command `execution approve`."""

from typing import Any, Final

import click

from pyoco_client.cli.arguments import BadArgumentError, execution_id_argument, node_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import Form, print_record, run_output
from pyoco_client.cli.examples import EXECUTION_ID, examples
from pyoco_client.cli.json_options import json_object_option

_EXAMPLE: Final = f"pyoco-client execution approve {EXECUTION_ID} payment"

_PAYLOAD: Final = f"{_EXAMPLE} --payload amount=12"


@click.command(epilog=examples(_EXAMPLE, _PAYLOAD))
@execution_id_argument
@node_id_argument
@json_object_option("payload", "The payload, which is the output of a Wait", _PAYLOAD)
@click.option("--comment", help="A comment, stored with the approval.")
@run_output
@pass_connection
def approve(
    connection: Connection,
    *,
    execution_id: str,
    node_id: str,
    payload: dict[str, Any] | None,
    comment: str | None,
    form: Form | None,
) -> int:
    """Approve a waiting node.

    Counts as one approval of the owner of the API key where the wait needs approvals, and resumes
    the node otherwise. The key of the wait is sent with it.
    """
    with connection.open() as client:
        try:
            answer = client.waits.approve(execution_id, node_id, payload, comment=comment)
        except ValueError as error:
            raise BadArgumentError(f"--comment: {error}", _EXAMPLE) from error
    print_record(answer.as_dict(), form, COMMAND)
    return EXIT_OK
