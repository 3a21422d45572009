"""Shows the changes of a run until it ends, and turns its end into an exit code."""

import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK
from pyoco_client.cli.display.cells import moment
from pyoco_client.cli.display.layouts import progress
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    print_json_line,
    print_line,
    print_note,
)

if TYPE_CHECKING:
    from pyoco_client.models import Run


def show_changes(
    runs: Iterable["Run"], form: Form | None, outages: Outages, *, max_events: int = 0
) -> "Run | None":
    """Print each snapshot of a run as it arrives; return the last one."""
    if max_events:
        runs = islice(runs, max_events)
    if form in (None, Form.TABLE) and is_terminal():
        from pyoco_client.cli.display.live import follow

        return follow(runs, sys.stdout, outages=outages)
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
    """Return 0 for a COMPLETED run, else 1; print why a run that has ended is not COMPLETED."""
    if run is not None and run.status == "COMPLETED":
        return EXIT_OK
    if run is not None and run.is_over:
        reason = run.error or run.cancel_reason
        print_note(f"run {run.run_id} ended {run.status}" + (f": {reason}" if reason else ""))
    return EXIT_FAILED


def _event(run: "Run") -> dict[str, Any]:
    # The form of the gateway's event stream, which earlier releases of this command printed.
    data = {"run_id": run.run_id, "snapshot": run.as_dict(), "ts": time.time()}
    return {"event": "snapshot", "data": data}


def _line(run: "Run", form: Form) -> str:
    if form is Form.STATUS:
        return f"{time.time():.3f}\tsnapshot\t{run.status}\t{run.run_id}"
    return "  ".join(
        [moment(run.updated_at), run.run_id, f"{run.status:<10}", progress(run.as_dict())]
    ).rstrip()
