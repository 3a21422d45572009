"""The commands `worker hide` and `worker show`."""

import click

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import PATCHED
from pyoco_client.cli.display.output import Form, data_output, print_record
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import HelpfulGroup


@click.group(
    cls=HelpfulGroup, no_args_is_help=False, epilog=examples("pyoco-client worker hide worker-1")
)
def worker() -> None:
    """Hide a worker from lists, or show it again.

    Hiding changes only the lists: the worker continues to run jobs.
    """


@worker.command(epilog=examples("pyoco-client worker hide worker-1"))
@click.argument("worker_id")
@data_output
@pass_connection
def hide(connection: Connection, worker_id: str, form: Form | None) -> int:
    """Hide a worker from lists."""
    return _set_hidden(connection, worker_id, form, hidden=True)


@worker.command(epilog=examples("pyoco-client worker show worker-1"))
@click.argument("worker_id")
@data_output
@pass_connection
def show(connection: Connection, worker_id: str, form: Form | None) -> int:
    """Show a worker in lists again."""
    return _set_hidden(connection, worker_id, form, hidden=False)


def _set_hidden(connection: Connection, worker_id: str, form: Form | None, *, hidden: bool) -> int:
    # An id that is empty or only dots would change the path of the request.
    if not worker_id.strip("."):
        raise BadArgumentError(f"{worker_id!r} is not a worker id")
    with connection.open() as client:
        change = client.workers.hide if hidden else client.workers.show
        print_record(change(worker_id).as_dict(), form, PATCHED)
    return EXIT_OK
