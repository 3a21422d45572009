"""The command `waits`."""

from typing import TYPE_CHECKING

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import WAITS
from pyoco_client.cli.display.output import Form, data_output
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lists import MAX_LIMIT, check_all, note_rest, print_items

if TYPE_CHECKING:
    from pyoco_client import OpenNode


@click.command(
    epilog=examples(
        "pyoco-client waits --approver ann",
        "pyoco-client waits --graph-id order-intake --output wide",
        "pyoco-client waits --all --output jsonl",
    )
)
@click.option("--graph-id", help="Only nodes of executions of this graph.")
@click.option("--approver", help="Only nodes that this actor may approve: the name of an API key.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    help="Maximum number of nodes, 1 to 200.  [default: 50]",
)
@click.option("--all", "everything", is_flag=True, help="All waiting nodes.")
@data_output
@pass_connection
def waits(
    connection: Connection,
    *,
    graph_id: str | None,
    approver: str | None,
    limit: int | None,
    everything: bool,
    form: Form | None,
) -> int:
    """List the nodes that wait for a person or an event.

    The one that waits the longest comes first. With --output name each line has the execution id
    and the node id, as `execution approve` takes them.
    """
    check_all(everything=everything, limit=limit, command="waits")
    with connection.open() as client:
        if everything:
            items = client.waits.iter(graph_id=graph_id, approver=approver)
            print_items(items, form, WAITS, _name)
            return EXIT_OK
        page = client.waits.page(graph_id=graph_id, approver=approver, limit=limit)
    print_items(page.items, form, WAITS, _name)
    note_rest("waiting nodes", shown=len(page.items), cursor=page.next_cursor, total=page.total)
    return EXIT_OK


def _name(item: "OpenNode") -> str:
    return f"{item.execution_id} {item.node_id}"
