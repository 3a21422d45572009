"""The command `watch`."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, UNIX_SECONDS, run_id_argument
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.output import Form, is_terminal, output_option, print_note
from pyoco_client.cli.examples import RUN_ID, examples
from pyoco_client.cli.run_changes import exit_code_of, show_changes

if TYPE_CHECKING:
    from pyoco_client.models import Run

_FORMS: Final = (Form.JSON, Form.STATUS, Form.WIDE, Form.JSONL, Form.NAME)


@click.command(
    epilog=examples(
        f"pyoco-client watch {RUN_ID}",
        f"pyoco-client watch {RUN_ID} --output status",
        f"pyoco-client watch {RUN_ID} --exit-status --timeout-sec 60",
    )
)
@run_id_argument
@click.option("--records", is_flag=True, help="Include the record of each task.")
@click.option("--since", type=UNIX_SECONDS, help="Only changes after this time, and the end.")
@click.option("--timeout-sec", type=POSITIVE_SECONDS, help="Stop watching after this time.")
@click.option(
    "--max-events",
    type=click.IntRange(0),
    default=0,
    help="Stop watching after this many changes; 0 is no limit.",
)
@click.option(
    "--until-terminal", is_flag=True, help="Watch until the run has ended, which is the default."
)
@click.option("--exit-status", is_flag=True, help="Exit 1 unless the run is COMPLETED.")
@output_option(*_FORMS, otherwise="a live view on a terminal, else json")
@pass_connection
def watch(
    connection: Connection,
    *,
    run_id: str,
    records: bool,
    since: float | None,
    timeout_sec: float | None,
    max_events: int,
    until_terminal: bool,
    exit_status: bool,
    form: Form | None,
) -> int:
    """Watch a run until it has ended.

    A terminal shows a live view. Other outputs get one line for each change, at once: json prints
    the event and its data, jsonl the snapshot alone, status its time, kind, status and id. The
    command waits for a gateway that restarts, and says so.
    """
    del until_terminal
    with connection.open() as client:
        handle = client.run(run_id)
        # A watch waits for an absent gateway. This request fails at once if it was never there.
        handle.get()
        include = "records" if records or (form is None and is_terminal()) else None
        outages = Outages()
        runs = handle.watch(include, timeout_sec, on_outage=outages.take)
        run = show_changes(_later(runs, since), form, outages, max_events=max_events)
    if run is None:
        print_note(f"run {run_id}: no change was seen")
    elif not run.is_over and max_events == 0:
        print_note(f"run {run_id} is {run.status} after {timeout_sec or 0:g} s, and continues")
    if not exit_status:
        return EXIT_OK
    return exit_code_of(run)


def _later(runs: Iterable["Run"], since: float | None) -> Iterator["Run"]:
    for run in runs:
        if since is None or run.updated_at > since or run.is_over:
            yield run
