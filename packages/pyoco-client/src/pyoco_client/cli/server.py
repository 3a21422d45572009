"""Commands about the server itself: health."""

from typing import Final

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.output import print_data


@click.command()
@pass_connection
def health(connection: Connection) -> int:
    """Print whether the gateway serves requests."""
    with connection.open() as client:
        print_data(client.health())
    return EXIT_OK


COMMANDS: Final = (health,)
