"""The command `waits`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import WAITS
from pyoco_client.cli.display.output import Form, chosen, data_output, print_line, print_records
from pyoco_client.cli.examples import examples


@click.command(
    epilog=examples(
        "pyoco-client waits --approver ann",
        "pyoco-client waits --graph-id order-intake --output wide",
    )
)
@click.option("--graph-id", help="Only nodes of executions of this graph.")
@click.option("--approver", help="Only nodes that this actor may approve: the name of an API key.")
@click.option(
    "--limit", type=click.IntRange(1, 200), help="Maximum number of nodes.  [default: 50]"
)
@data_output
@pass_connection
def waits(
    connection: Connection,
    *,
    graph_id: str | None,
    approver: str | None,
    limit: int | None,
    form: Form | None,
) -> int:
    """List the nodes that wait for a person or an event.

    The one that waits the longest comes first. With --output name each line has the execution id
    and the node id, as `execution approve` takes them.
    """
    with connection.open() as client:
        found = client.waits.list(graph_id=graph_id, approver=approver, limit=limit)
    if chosen(form) is Form.NAME:
        for item in found:
            print_line(f"{item.execution_id} {item.node_id}")
    else:
        print_records([item.as_dict() for item in found], form, WAITS)
    return EXIT_OK
