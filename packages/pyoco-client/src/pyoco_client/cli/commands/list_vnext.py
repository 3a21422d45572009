"""The command `list-vnext`."""

import click

from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUNS
from pyoco_client.cli.display.output import Form, chosen, data_output, print_note, print_records
from pyoco_client.cli.examples import examples
from pyoco_client.cli.run_filters import RunListOptions, list_options


@click.command(
    epilog=examples(
        "pyoco-client list-vnext --updated-after 0 --limit 100",
        "pyoco-client list-vnext --status FAILED --output table",
    ),
)
@list_options
@click.option("--updated-after", type=float, help="Runs updated after this time; unix seconds.")
@click.option("--cursor", help="Continue after a page: its next_cursor or its resume_cursor.")
@click.option("--workflow-yaml-sha256", help="Only runs of the workflow file with this hash.")
@data_output
@pass_connection
def list_vnext(
    connection: Connection,
    *,
    query: RunListOptions,
    updated_after: float | None,
    cursor: str | None,
    workflow_yaml_sha256: str | None,
    form: Form | None,
) -> int:
    """List runs and their changes, page by page.

    The latest change comes first. Pass the next_cursor of a page as --cursor to the next call;
    it is null on the last page. The resume_cursor of the first page lists the changes since then,
    the oldest first: pass that of each page to the next call, and no change is missed. Every
    output except json prints the cursors to stderr.
    """
    with connection.open() as client:
        page = client.runs.page(
            **query,
            workflow_yaml_sha256=workflow_yaml_sha256,
            # Without either option the gateway would list the latest runs instead of changes.
            updated_after=0.0 if updated_after is None and cursor is None else updated_after,
            cursor=cursor,
        ).as_dict()
    print_records(page["items"], form, RUNS, document=page)
    if chosen(form) is not Form.JSON:
        for name in ("next_cursor", "resume_cursor"):
            if page.get(name) is not None:
                print_note(f"{name}: {page[name]}")
    return EXIT_OK
