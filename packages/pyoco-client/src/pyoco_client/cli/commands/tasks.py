"""The command `tasks`."""

import click

from pyoco_client.cli.arguments import run_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import TASKS, task_rows
from pyoco_client.cli.display.output import Form, data_output, print_records
from pyoco_client.cli.examples import RUN_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client tasks --run-id {RUN_ID}",
        f"pyoco-client tasks {RUN_ID} --output table",
    )
)
@run_id_argument
@data_output
@pass_connection
def tasks(connection: Connection, run_id: str, form: Form | None) -> int:
    """Print the task states and records of a run."""
    with connection.open() as client:
        answer = client.run(run_id).tasks().as_dict()
    print_records(task_rows(answer), form, TASKS, document=answer)
    return EXIT_OK
