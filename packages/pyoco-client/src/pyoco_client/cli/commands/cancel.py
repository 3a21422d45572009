"""The command `cancel`."""

import time
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, BadArgumentError, checked_run_id
from pyoco_client.cli.commands.list import filter_options
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUN, RUNS
from pyoco_client.cli.display.output import (
    Form,
    data_output,
    print_note,
    print_problem,
    print_record,
    print_records,
)
from pyoco_client.cli.examples import RUN_ID, examples
from pyoco_client.cli.named_things import make_sure, named
from pyoco_client.errors import PyocoError, WaitTimeoutError

if TYPE_CHECKING:
    from pyoco_client import Client, Run

_NOT_OVER: Final = ("PENDING", "RUNNING", "CANCELLING")
_ENDED_OTHERWISE: Final = frozenset({"COMPLETED", "FAILED"})
_ASKED_TO_END: Final = "CANCELLING"
_BULK_EXAMPLE: Final = "pyoco-client cancel --status PENDING --flow 'hel*' --yes"


@click.command(
    epilog=examples(
        f"pyoco-client cancel --run-id {RUN_ID} --wait --timeout-sec 30",
        f"pyoco-client cancel {RUN_ID} --reason 'wrong parameters'",
        "pyoco-client cancel --status PENDING --flow 'hel*' --dry-run",
        "pyoco-client cancel --status PENDING --status RUNNING --flow countdown --yes --wait",
        "pyoco-client list --status RUNNING --output name | pyoco-client cancel -",
    )
)
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID|-]...")
@click.option("--run-id", "more_ids", multiple=True, help="A run to cancel; repeatable.")
@filter_options(*_NOT_OVER)
@click.option("--dry-run", is_flag=True, help="List what would be cancelled, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before all that match are cancelled.")
@click.option("--reason", help="Why, for whoever looks at the run later.")
@click.option("--wait", is_flag=True, help="Wait until each run is over; exit 1 if one is not.")
@click.option(
    "--timeout-sec", type=POSITIVE_SECONDS, help="With --wait: give up after this long in all."
)
@data_output
@pass_connection
def cancel(
    connection: Connection,
    *,
    run_ids: tuple[str, ...],
    more_ids: tuple[str, ...],
    statuses: tuple[str, ...],
    flow: str | None,
    tag: str | None,
    dry_run: bool,
    yes: bool,
    reason: str | None,
    wait: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Cancel a run, or all that match.

    A run is named by its id, as an argument, by --run-id, or on stdin (-). Or --status, --flow and
    --tag choose runs: all that match and are not over. With --wait the exit code is 0 when each
    run is over, in whatever way; a run that was over before is left as it is.
    """
    filters = {"flow": flow, "tag": tag, "status": statuses or None}
    by_filter = any(value is not None for value in filters.values())
    ids = [checked_run_id(name) for name in named([*run_ids, *more_ids])]
    _check(bool(run_ids or more_ids), by_filter, wait=wait, timeout_sec=timeout_sec)
    with connection.open() as client:
        if by_filter:
            query: dict[str, Any] = {**filters, "status": statuses or _NOT_OVER}
            found = [item.as_dict() for item in client.runs.iter(**query)]
            if dry_run:
                print_records(found, form, RUNS)
                return EXIT_OK
            ids = [str(item["run_id"]) for item in found]
            if ids:
                make_sure(f"Cancel {_counted(len(ids))}?", yes=yes, example=_BULK_EXAMPLE)
        elif dry_run:
            print_records([client.run(each).get().as_dict() for each in ids], form, RUNS)
            return EXIT_OK
        is_single = len(ids) == 1 and not by_filter
        code, cancelled = _cancel_all(
            client, ids, reason, wait=wait, timeout_sec=timeout_sec, is_single=is_single
        )
    if is_single:
        print_record(cancelled[0], form, RUN)
    else:
        print_records(cancelled, form, RUNS)
        _print_summary(cancelled, waited=wait)
    return code


def _check(by_id: bool, by_filter: bool, *, wait: bool, timeout_sec: float | None) -> None:
    if by_id and by_filter:
        raise BadArgumentError(
            "run ids and --status, --flow, --tag exclude each other", _BULK_EXAMPLE
        )
    if not by_id and not by_filter:
        raise BadArgumentError("Missing option '--run-id', or --status, --flow or --tag.")
    if timeout_sec is not None and not wait:
        # The published command takes it so, and scripts count on the cancel.
        print_note("note: --timeout-sec has a meaning only with --wait")


def _cancel_all(
    client: "Client",
    ids: list[str],
    reason: str | None,
    *,
    wait: bool,
    timeout_sec: float | None,
    is_single: bool,
) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the runs; all are asked to end before any is waited for."""
    code = EXIT_OK
    runs: dict[str, Run] = {}
    for run_id in ids:
        try:
            run = client.run(run_id).cancel(reason=reason)
        except PyocoError as error:
            # One that is gone meanwhile does not spare the others.
            if is_single or error.status is None:
                raise
            print_problem(error)
            code = EXIT_FAILED
        else:
            runs[run_id] = run
    end_at = None if timeout_sec is None else time.monotonic() + timeout_sec
    for run_id in [each for each in runs if wait and not runs[each].is_over]:
        left = None if end_at is None else max(end_at - time.monotonic(), 0.001)
        try:
            runs[run_id] = client.run(run_id).wait(left)
        except WaitTimeoutError as error:
            print_note(f"run {run_id} is {error.last_status or 'not over'} after {timeout_sec:g} s")
            code = EXIT_FAILED
    return code, [run.as_dict() for run in runs.values()]


def _print_summary(runs: list[dict[str, Any]], *, waited: bool) -> None:
    left_alone = sum(run["status"] in _ENDED_OTHERWISE for run in runs)
    # Without waiting a cancel that is recorded is all there is to tell.
    going_on = sum(waited and run["status"] == _ASKED_TO_END for run in runs)
    print_note(f"{_counted(len(runs) - left_alone - going_on)} cancelled")
    if going_on:
        print_note(f"{_counted(going_on)} not over yet")
    if left_alone:
        print_note(f"{_counted(left_alone)} had ended already")


def _counted(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
