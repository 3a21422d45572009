"""The command `metrics`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.output import print_line
from pyoco_client.cli.examples import examples


@click.command(
    epilog=examples("pyoco-client metrics", "pyoco-client metrics | grep pyoco_runs_total")
)
@pass_connection
def metrics(connection: Connection) -> int:
    """Print the metrics of the gateway.

    They are in the text format of Prometheus, 0.0.4.
    """
    with connection.open() as client:
        page = client.metrics()
    print_line(page.rstrip("\n"))
    return EXIT_OK
