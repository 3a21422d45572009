"""The command `queues`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import QUEUES
from pyoco_client.cli.display.output import Form, data_output, print_records
from pyoco_client.cli.examples import examples


@click.command(epilog=examples("pyoco-client queues", "pyoco-client queues --output table"))
@data_output
@pass_connection
def queues(connection: Connection, form: Form | None) -> int:
    """List the waiting runs and the workers of each tag."""
    with connection.open() as client:
        found = client.queues.list()
    print_records([each.as_dict() for each in found], form, QUEUES)
    return EXIT_OK
