"""The command `cancel`."""

import time
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, BadArgumentError, checked_run_id
from pyoco_client.cli.bulk import confirm, ids_in, is_single
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
from pyoco_client.cli.run_filters import RunFilterOptions, filter_options
from pyoco_client.errors import PyocoError, WaitTimeoutError

if TYPE_CHECKING:
    from pyoco_client import Client, Run

_NOT_ENDED: Final = ("PENDING", "RUNNING", "CANCELLING")
_ENDED_WITHOUT_CANCEL: Final = frozenset({"COMPLETED", "FAILED"})
_CANCELLING: Final = "CANCELLING"
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
@filter_options(*_NOT_ENDED)
@click.option("--dry-run", is_flag=True, help="List the runs to cancel, and change nothing.")
@click.option("--yes", is_flag=True, help="Cancel all matching runs without a question.")
@click.option("--reason", help="The reason, stored with the run.")
@click.option("--wait", is_flag=True, help="Wait until each run has ended; exit 1 if one has not.")
@click.option(
    "--timeout-sec", type=POSITIVE_SECONDS, help="With --wait: maximum time to wait in total."
)
@data_output
@pass_connection
def cancel(
    connection: Connection,
    *,
    run_ids: tuple[str, ...],
    more_ids: tuple[str, ...],
    filters: RunFilterOptions,
    dry_run: bool,
    yes: bool,
    reason: str | None,
    wait: bool,
    timeout_sec: float | None,
    form: Form | None,
) -> int:
    """Cancel a run, or all matching runs.

    Give run ids as arguments, by --run-id, or on stdin (-). Or select runs by --status, --flow and
    --tag: all matching runs that have not ended. With --wait the exit code is 0 when each run has
    ended, with any status; a run that had ended before does not change.
    """
    by_filter = any(value is not None for value in filters.values())
    words = (*run_ids, *more_ids)
    single = is_single(words)
    ids = [checked_run_id(word) for word in ids_in(words)]
    _check(bool(words), by_filter, wait=wait, timeout_sec=timeout_sec)
    with connection.open() as client:
        if by_filter:
            query: RunFilterOptions = {**filters, "status": filters["status"] or _NOT_ENDED}
            found = [item.as_dict() for item in client.runs.iter(**query)]
            if dry_run:
                print_records(found, form, RUNS)
                return EXIT_OK
            ids = [str(item["run_id"]) for item in found]
            if ids:
                confirm(f"Cancel {_counted(len(ids))}?", yes=yes, example=_BULK_EXAMPLE)
        elif dry_run:
            print_records([client.run(each).get().as_dict() for each in ids], form, RUNS)
            return EXIT_OK
        code, cancelled = _cancel_all(
            client, ids, reason, wait=wait, timeout_sec=timeout_sec, single=single
        )
    if single:
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
        # Only a note: the published command accepts this, and scripts rely on the cancel.
        print_note("note: --timeout-sec has an effect only with --wait")


def _cancel_all(
    client: "Client",
    ids: list[str],
    reason: str | None,
    *,
    wait: bool,
    timeout_sec: float | None,
    single: bool,
) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the runs; cancel all runs before waiting for the first one."""
    code = EXIT_OK
    runs: dict[str, Run] = {}
    for run_id in ids:
        try:
            run = client.run(run_id).cancel(reason=reason)
        except PyocoError as error:
            # A run that was deleted meanwhile must not keep the others from being cancelled.
            if single or error.status is None:
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
            status = error.last_status or "in an unknown state"
            print_note(f"run {run_id} is {status} after {timeout_sec:g} s")
            code = EXIT_FAILED
    return code, [run.as_dict() for run in runs.values()]


def _print_summary(runs: list[dict[str, Any]], *, waited: bool) -> None:
    unchanged = sum(run["status"] in _ENDED_WITHOUT_CANCEL for run in runs)
    # Without --wait a run counts as cancelled as soon as its cancel is recorded.
    unfinished = sum(waited and run["status"] == _CANCELLING for run in runs)
    print_note(f"{_counted(len(runs) - unchanged - unfinished)} cancelled")
    if unfinished:
        print_note(f"{_counted(unfinished)} not ended yet")
    if unchanged:
        print_note(f"{_counted(unchanged)} had ended already")


def _counted(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
