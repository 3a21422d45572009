"""Commands that look at one run: get, tasks."""

import click

from pyoco_client.cli.arguments import one_run
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUN, RUN_AND_RECORDS, TASKS, task_rows
from pyoco_client.cli.display.output import Form, data_output, print_record, print_records
from pyoco_client.cli.examples import RUN_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client get --run-id {RUN_ID}",
        f"pyoco-client get {RUN_ID} --records",
        f"pyoco-client get {RUN_ID} --output wide",
    )
)
@one_run
@click.option("--records", is_flag=True, help="Include what is recorded of each task.")
@data_output
@pass_connection
def get(connection: Connection, run_id: str, records: bool, form: Form | None) -> int:
    """Print the latest snapshot of a run."""
    with connection.open() as client:
        run = client.run(run_id).get(include="records" if records else None)
    print_record(run.as_dict(), form, RUN_AND_RECORDS if records else RUN)
    return EXIT_OK


@click.command(
    epilog=examples(
        f"pyoco-client tasks --run-id {RUN_ID}",
        f"pyoco-client tasks {RUN_ID} --output table",
    )
)
@one_run
@data_output
@pass_connection
def tasks(connection: Connection, run_id: str, form: Form | None) -> int:
    """Print the task states and records of a run."""
    with connection.open() as client:
        answer = client.run(run_id).tasks().as_dict()
    print_records(task_rows(answer), form, TASKS, document=answer)
    return EXIT_OK
