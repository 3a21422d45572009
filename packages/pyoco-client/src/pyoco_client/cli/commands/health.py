"""The command `health`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import HEALTH
from pyoco_client.cli.display.output import Form, data_output, print_record
from pyoco_client.cli.examples import examples


@click.command(
    epilog=examples(
        "pyoco-client --server http://127.0.0.1:8000 health",
        "pyoco-client health --verbose --output json",
    )
)
@click.option("--verbose", is_flag=True, help="Include the broker, its streams and the run index.")
@data_output
@pass_connection
def health(connection: Connection, verbose: bool, form: Form | None) -> int:
    """Print whether the gateway serves requests."""
    with connection.open() as client:
        answer = client.health(verbose)
    print_record(answer.as_dict(), form, HEALTH)
    return EXIT_OK
