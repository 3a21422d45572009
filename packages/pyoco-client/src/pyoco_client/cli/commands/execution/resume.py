"""The command `execution resume`."""

from typing import Any, Final

import click

from pyoco_client.cli.arguments import execution_id_argument, node_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import COMMAND
from pyoco_client.cli.display.output import Form, print_record, run_output
from pyoco_client.cli.examples import EXECUTION_ID, examples
from pyoco_client.cli.json_options import json_object_option

_EXAMPLE: Final = f"pyoco-client execution resume {EXECUTION_ID} payment --resume-key order-4711"
_PAYLOAD: Final = f"{_EXAMPLE} --payload paid=true"


@click.command(epilog=examples(_EXAMPLE, _PAYLOAD))
@execution_id_argument
@node_id_argument
@click.option("--resume-key", help="The key of the wait, if it has one.")
@json_object_option("payload", "The payload, which is the output of a Wait", _PAYLOAD)
@run_output
@pass_connection
def resume(
    connection: Connection,
    *,
    execution_id: str,
    node_id: str,
    resume_key: str | None,
    payload: dict[str, Any] | None,
    form: Form | None,
) -> int:
    """Resume a waiting node.

    A wait that needs approvals cannot be resumed: use `execution approve`.
    """
    with connection.open() as client:
        node = client.executions.handle(execution_id).node(node_id)
        answer = node.resume(payload, resume_key=resume_key)
    print_record(answer.as_dict(), form, COMMAND)
    return EXIT_OK
