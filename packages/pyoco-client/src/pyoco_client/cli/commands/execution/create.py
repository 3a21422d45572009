"""The command `execution create`."""

import uuid
from typing import Any, Final

import click

from pyoco_client.cli.arguments import checked_idempotency_key, graph_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import CREATED
from pyoco_client.cli.display.output import Form, print_note, print_record, run_output
from pyoco_client.cli.examples import examples
from pyoco_client.cli.json_options import json_object_option
from pyoco_client.errors import GatewayUnreachableError, PyocoError, UnavailableError

_EXAMPLE: Final = "pyoco-client execution create order-intake --input orderId=4711"
_KEY_EXAMPLE: Final = f"{_EXAMPLE} --idempotency-key order-4711"


@click.command(
    epilog=examples(
        _EXAMPLE,
        """pyoco-client execution create order-intake --input '{"orderId": "4711"}' --label vip""",
        "pyoco-client execution create order-intake --input @order.yaml --input lines=3 -o name",
        f"{_KEY_EXAMPLE} --no-start",
    )
)
@graph_id_argument
@click.option("--graph-version", type=click.IntRange(1), help="Version of the graph.")
@json_object_option("input", "The input", _EXAMPLE)
@click.option("--label", "labels", multiple=True, help="A label to find it by; repeatable.")
@click.option("--no-start", is_flag=True, help="Only create it; `execution start` starts it.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Creations with the same key make one execution, so they can be repeated.",
)
@run_output
@pass_connection
def create(
    connection: Connection,
    *,
    graph_id: str,
    graph_version: int | None,
    input: dict[str, Any] | None,  # noqa: A002 - the name of the option
    labels: tuple[str, ...],
    no_start: bool,
    idempotency_key: str | None,
    form: Form | None,
) -> int:
    """Create and start an execution of a graph.

    Prints its id. The latest version of the graph is used unless --graph-version is given.
    """
    key = checked_idempotency_key(idempotency_key, _KEY_EXAMPLE) or uuid.uuid4().hex
    with connection.open() as client:
        try:
            handle = client.executions.create(
                graph_id,
                input,
                graph_version=graph_version,
                labels=labels or None,
                start=not no_start,
                idempotency_key=key,
            )
        except PyocoError as error:
            if _may_exist(error):
                print_note(f"It may exist. Repeat the command safely with --idempotency-key {key}")
            raise
    accepted = handle.accepted
    record = {"executionId": handle.id} if accepted is None else accepted.as_dict()
    print_record(record, form, CREATED)
    if handle.is_replay:
        print_note("the execution existed already")
    return EXIT_OK


def _may_exist(error: PyocoError) -> bool:
    if isinstance(error, GatewayUnreachableError):
        return error.may_have_arrived
    return isinstance(error, UnavailableError)
