"""The command `watch`, and how commands show a run until it is over."""

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, UNIX_SECONDS, one_run
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import moment, progress
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    output_option,
    print_json_line,
    print_line,
    print_note,
)
from pyoco_client.cli.examples import RUN_ID, examples

if TYPE_CHECKING:
    from pyoco_client.models import Run

WATCH_FORMS: Final = (Form.JSON, Form.STATUS, Form.WIDE, Form.JSONL, Form.NAME)


@click.command(
    epilog=examples(
        f"pyoco-client watch {RUN_ID}",
        f"pyoco-client watch {RUN_ID} --output status",
        f"pyoco-client watch {RUN_ID} --exit-status --timeout-sec 60",
    )
)
@one_run
@click.option("--records", is_flag=True, help="Include what is recorded of each task.")
@click.option("--since", type=UNIX_SECONDS, help="Only changes after this time; unix seconds.")
@click.option("--timeout-sec", type=POSITIVE_SECONDS, help="Stop watching after this long.")
@click.option(
    "--max-events",
    type=click.IntRange(0),
    default=0,
    help="Stop watching after so many changes; 0 is no limit.",
)
@click.option("--until-terminal", is_flag=True, help="Watch until the run is over, as always.")
@click.option("--exit-status", is_flag=True, help="Exit 1 unless the run is COMPLETED.")
@output_option(*WATCH_FORMS, otherwise="a live view on a terminal, else json")
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
    """Watch a run until it is over.

    On a terminal there is a live view. Elsewhere each change is one line, at once: with json the
    event and its data, with jsonl the snapshot alone, with status its time, kind, status and id.
    A gateway that restarts is waited for.
    """
    del until_terminal
    with connection.open() as client:
        handle = client.run(run_id)
        # A watch waits for a gateway that is away; one that was never there is told at once.
        handle.get()
        include = "records" if records or (form is None and is_terminal()) else None
        runs = handle.watch(include, timeout_sec)
        run = show_changes(_later(runs, since), form, max_events=max_events)
    if run is None:
        print_note(f"run {run_id}: no change was seen")
    elif not run.is_over and max_events == 0:
        print_note(f"run {run_id} is {run.status} after {timeout_sec or 0:g} s, and goes on")
    if not exit_status:
        return EXIT_OK
    return exit_code_of(run)


def show_changes(runs: Iterable["Run"], form: Form | None, *, max_events: int = 0) -> "Run | None":
    """Return the last of some snapshots of a run, after each was shown as it came."""
    if max_events:
        runs = islice(runs, max_events)
    if form in (None, Form.TABLE) and is_terminal():
        from pyoco_client.cli.display.live import follow

        return follow(runs, sys.stdout)
    form = form or Form.JSON
    last: Run | None = None
    for run in runs:
        if form is Form.NAME:
            if last is None:
                print_line(run.run_id)
        elif form in (Form.JSON, Form.JSONL):
            print_json_line(_event(run) if form is Form.JSON else run.as_dict())
        else:
            print_line(_line(run, form))
        last = run
    return last


def exit_code_of(run: "Run | None") -> int:
    """Return 0 for a run that is COMPLETED, else 1; say why it is not."""
    if run is not None and run.status == "COMPLETED":
        return EXIT_OK
    if run is not None and run.is_over:
        reason = run.error or run.cancel_reason
        print_note(f"run {run.run_id} ended {run.status}" + (f": {reason}" if reason else ""))
    return EXIT_FAILED


def _later(runs: Iterable["Run"], since: float | None) -> Iterator["Run"]:
    for run in runs:
        if since is None or run.updated_at > since:
            yield run


def _event(run: "Run") -> dict[str, Any]:
    # As the stream of the gateway has it, and as earlier releases of this command printed it.
    data = {"run_id": run.run_id, "snapshot": run.as_dict(), "ts": time.time()}
    return {"event": "snapshot", "data": data}


def _line(run: "Run", form: Form) -> str:
    if form is Form.STATUS:
        return f"{time.time():.3f}\tsnapshot\t{run.status}\t{run.run_id}"
    return "  ".join(
        [moment(run.updated_at), run.run_id, f"{run.status:<10}", progress(run.as_dict())]
    ).rstrip()
