"""The command `get`."""

import click

from pyoco_client.cli.arguments import run_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUN, RUN_AND_RECORDS
from pyoco_client.cli.display.output import Form, data_output, print_record
from pyoco_client.cli.examples import RUN_ID, examples


@click.command(
    epilog=examples(
        f"pyoco-client get --run-id {RUN_ID}",
        f"pyoco-client get {RUN_ID} --records",
        f"pyoco-client get {RUN_ID} --output wide",
    )
)
@run_id_argument
@click.option("--records", is_flag=True, help="Include the record of each task.")
@data_output
@pass_connection
def get(connection: Connection, run_id: str, records: bool, form: Form | None) -> int:
    """Print the latest snapshot of a run."""
    with connection.open() as client:
        run = client.run(run_id).get(include="records" if records else None)
    print_record(run.as_dict(), form, RUN_AND_RECORDS if records else RUN)
    return EXIT_OK
