"""The command `execution watch`."""

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, execution_id_argument
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.cells import moment
from pyoco_client.cli.display.event_text import error_text
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.output import (
    Form,
    is_terminal,
    output_option,
    print_json_line,
    print_line,
    print_note,
)
from pyoco_client.cli.examples import EXECUTION_ID, examples
from pyoco_client.errors import PyocoError

if TYPE_CHECKING:
    from pyoco_client import Execution, ExecutionHandle
    from pyoco_client.execution_models import ExecutionChange

_FORMS: Final = (Form.JSON, Form.JSONL, Form.STATUS, Form.WIDE, Form.NAME)


@click.command(
    epilog=examples(
        f"pyoco-client execution watch {EXECUTION_ID}",
        f"pyoco-client execution watch {EXECUTION_ID} --output wide",
        f"pyoco-client execution watch {EXECUTION_ID} --after-seq 10 --timeout-sec 60",
    )
)
@execution_id_argument
@click.option(
    "--after-seq", type=click.IntRange(0), help="Begin with the events after this number."
)
@click.option("--timeout-sec", type=POSITIVE_SECONDS, help="Stop watching after this time.")
@click.option("--exit-status", is_flag=True, help="Exit 1 unless the execution is COMPLETED.")
@output_option(*_FORMS, otherwise="a live view on a terminal, else json")
@pass_connection
def watch(
    connection: Connection,
    *,
    execution_id: str,
    after_seq: int | None,
    timeout_sec: float | None,
    exit_status: bool,
    form: Form | None,
) -> int:
    """Watch an execution until it has ended.

    A terminal shows a live view. Other outputs get one line for each event, at once: json prints
    the kind and the data, jsonl the data alone, status its time, type, status and id. The command
    waits for a gateway that restarts, and says so.
    """
    with connection.open() as client:
        handle = client.executions.handle(execution_id)
        # A watch waits for an absent gateway. This request fails at once if it was never there.
        known = handle.get()
        outages = Outages()
        changes = handle.watch(after_seq=after_seq, timeout=timeout_sec, on_outage=outages.take)
        if form is None and is_terminal() and after_seq is None:
            from pyoco_client.cli.display.execution_live import follow_execution

            status = follow_execution(changes, sys.stdout, outages=outages)
        else:
            form = form or (Form.WIDE if is_terminal() else Form.JSON)
            status = _print_changes(changes, known, form)
        status = status or known.status.value
        if status == "ACTIVE":
            after = f"after {timeout_sec or 0:g} s"
            print_note(f"execution {execution_id} is ACTIVE {after}, and continues")
            return EXIT_FAILED if exit_status else EXIT_OK
        # The end is known. Only its reason takes a request.
        if not exit_status or status == "COMPLETED":
            return EXIT_OK
        print_note(f"execution {execution_id} ended {status}{_reason_of(handle)}")
    return EXIT_FAILED


def _print_changes(changes: Iterable["ExecutionChange"], known: "Execution", form: Form) -> str:
    """Print each change; return the last known status."""
    from pyoco_client.cli.display.displayed_execution import ENDS
    from pyoco_client.cli.display.execution_live import event_line

    if form is Form.NAME:
        print_line(known.execution_id)
    status = str(known.status)
    for change in changes:
        if change.execution is not None:
            status = str(change.execution.status)
        elif change.event is not None:
            status = ENDS.get(change.event.type, status)
        elif change.status is not None:
            status = str(change.status)
        data = _data(change)
        if form is Form.JSON:
            print_json_line({"event": change.kind, "id": change.seq, "data": data})
        elif form is Form.JSONL:
            print_json_line(data)
        elif form is Form.STATUS:
            kind = change.kind if change.event is None else change.event.type
            print_line(f"{time.time():.3f}\t{kind}\t{status}\t{known.execution_id}")
        elif form is Form.WIDE and change.event is not None:
            print_line(event_line(change.event))
        elif form is Form.WIDE:
            print_line(f"{moment(time.time())}  {change.seq}  {change.kind}  {status}")
    return status


def _data(change: "ExecutionChange") -> dict[str, Any]:
    if change.execution is not None:
        return change.execution.as_dict()
    if change.event is not None:
        return change.event.as_dict()
    return {"status": change.status, "seq": change.seq}


def _reason_of(handle: "ExecutionHandle") -> str:
    """Return why the execution is not COMPLETED, as the end of a sentence."""
    try:
        execution = handle.get()
    except PyocoError:
        return ""
    error = "" if execution.error is None else error_text(execution.error.to_wire())
    where = f"node {execution.failed_node_id}" if execution.failed_node_id else ""
    parts = [where, error, execution.cancel_reason or ""]
    return "".join(f": {part}" for part in parts if part)
