"""The commands `dlq list`, `dlq show`, `dlq redrive` and `dlq discard`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from pyoco_client.cli.arguments import BadArgumentError, checked_run_id
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import DISCARDED, LETTER, LETTERS, REDRIVEN
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    data_output,
    print_note,
    print_problem,
    print_record,
    print_records,
)
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import HelpfulGroup
from pyoco_client.cli.named_things import make_sure, named
from pyoco_client.errors import PyocoApiError

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_BULK_EXAMPLE: Final = "pyoco-client dlq redrive --reason execution_error --yes"
_SEQS: Final = click.argument("words", nargs=-1, metavar="[SEQ|-]...")


def _filters(command: _Decorated) -> _Decorated:
    for option in (
        click.option("--run-id", help="Only letters of this run."),
        click.option("--tag", help="Only letters of jobs with this tag."),
        click.option("--reason", help="Only letters with this reason, such as execution_error."),
    ):
        command = option(command)
    return command


@click.group(
    cls=HelpfulGroup,
    no_args_is_help=False,
    epilog=examples("pyoco-client dlq list --reason execution_error"),
)
def dlq() -> None:
    """List, redrive and discard dead letters.

    A job that cannot be done leaves a dead letter. When its cause is mended, redrive it: its run
    is run again, as a new run.
    """


@dlq.command(
    "list",
    epilog=examples(
        "pyoco-client dlq list --reason execution_error",
        "pyoco-client dlq list --tag default --limit 10 --output wide",
    ),
)
@_filters
@click.option("--limit", type=click.IntRange(1, 200), help="How many at most.  [default: 50]")
@click.option("--cursor", help="Go on where a page ended: its next_cursor.")
@data_output
@pass_connection
def list_letters(
    connection: Connection,
    *,
    reason: str | None,
    tag: str | None,
    run_id: str | None,
    limit: int | None,
    cursor: str | None,
    form: Form | None,
) -> int:
    """List dead letters, the newest first."""
    with connection.open() as client:
        page = client.dlq.page(
            reason=reason, tag=tag, run_id=run_id, limit=limit, cursor=cursor
        ).as_dict()
    print_records(page["items"], form, LETTERS, document=page)
    if chosen(form) is not Form.JSON and page.get("next_cursor") is not None:
        print_note(f"next_cursor: {page['next_cursor']}")
    return EXIT_OK


@dlq.command(epilog=examples("pyoco-client dlq show 1"))
@click.argument("seq", type=click.IntRange(1))
@data_output
@pass_connection
def show(connection: Connection, seq: int, form: Form | None) -> int:
    """Print all of a dead letter."""
    with connection.open() as client:
        letter = client.dlq.show(seq)
    print_record(letter.as_dict(), form, LETTER)
    return EXIT_OK


@dlq.command(
    epilog=examples(
        "pyoco-client dlq redrive 1",
        "pyoco-client dlq redrive --reason execution_error --dry-run",
        "pyoco-client dlq redrive --tag default --max 10 --yes",
    )
)
@_SEQS
@_filters
@click.option("--all", "every", is_flag=True, help="Every letter.")
@click.option("--max", "limit", type=click.IntRange(1, 1000), help="At most so many at a time.")
@click.option("--rate-per-sec", type=click.FloatRange(0.1, 1000), help="No faster than this.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before all that match are redriven.")
@data_output
@pass_connection
def redrive(
    connection: Connection,
    *,
    words: tuple[str, ...],
    reason: str | None,
    tag: str | None,
    run_id: str | None,
    every: bool,
    limit: int | None,
    rate_per_sec: float | None,
    dry_run: bool,
    yes: bool,
    form: Form | None,
) -> int:
    """Run dead letters again, each as a new run.

    Letters are named by their sequence, as arguments or on stdin (-), or chosen by --reason, --tag
    and --run-id. A run is redriven once, however often it is asked for.
    """
    filters: dict[str, Any] = {
        "reason": reason,
        "tag": tag,
        "run_id": None if run_id is None else checked_run_id(run_id),
        "every": every,
    }
    by_filter = any(filters.values())
    if bool(words) == by_filter:
        what = "exclude each other" if words else "are missing: name one or the other"
        raise BadArgumentError(f"SEQ and --reason, --tag, --run-id, --all {what}")
    if words:
        if dry_run or limit is not None or rate_per_sec is not None:
            raise BadArgumentError(
                "--dry-run, --max and --rate-per-sec go with --reason, --tag, --run-id or --all",
                "pyoco-client dlq redrive --reason execution_error --dry-run",
            )
        return _redrive_named(connection, _sequences(words), form)
    with connection.open() as client:
        limits: dict[str, Any] = {**filters, "limit": limit, "rate_per_sec": rate_per_sec}
        if not dry_run and not yes:
            matched = client.dlq.redrive_all(**limits, dry_run=True).matched
            make_sure(f"Redrive {_counted(matched)}?", yes=yes, example=_BULK_EXAMPLE)
        report = client.dlq.redrive_all(**limits, dry_run=dry_run).as_dict()
    print_records(report["redriven"], form, REDRIVEN, document=report)
    for failure in report["failed"]:
        print_note(f"{failure['seq']}: {failure['err_id']}: {failure['detail']}")
    if report["remaining"]:
        print_note("more letters match: repeat the command for the next ones")
    return EXIT_FAILED if report["failed"] else EXIT_OK


def _redrive_named(connection: Connection, sequences: list[int], form: Form | None) -> int:
    code, redriven = EXIT_OK, list[dict[str, Any]]()
    with connection.open() as client:
        for seq in sequences:
            try:
                redriven.append(client.dlq.redrive(seq).as_dict())
            except PyocoApiError as error:
                if len(sequences) == 1:
                    raise
                print_problem(error)
                code = EXIT_FAILED
    if len(sequences) == 1:
        print_record(redriven[0], form, REDRIVEN)
    else:
        print_records(redriven, form, REDRIVEN)
    return code


@dlq.command(
    epilog=examples(
        "pyoco-client dlq discard 1",
        "pyoco-client dlq list --reason invalid_job --output name | pyoco-client dlq discard -",
    )
)
@_SEQS
@data_output
@pass_connection
def discard(connection: Connection, words: tuple[str, ...], form: Form | None) -> int:
    """Remove dead letters; their runs stay as they are."""
    if not words:
        raise BadArgumentError("Missing argument 'SEQ'.")
    sequences = _sequences(words)
    code, discarded = EXIT_OK, list[dict[str, Any]]()
    with connection.open() as client:
        for seq in sequences:
            try:
                client.dlq.discard(seq)
            except PyocoApiError as error:
                if len(sequences) == 1:
                    raise
                print_problem(error)
                code = EXIT_FAILED
            else:
                discarded.append({"seq": seq, "discarded": True})
    print_records(discarded, form, DISCARDED)
    return code


def _sequences(words: tuple[str, ...]) -> list[int]:
    sequences = []
    for word in named(words):
        if not word.isdecimal() or int(word) < 1:
            raise BadArgumentError(
                f"{word!r} is not the sequence of a dead letter;"
                " `pyoco-client dlq list -o name` prints those there are"
            )
        sequences.append(int(word))
    return sequences


def _counted(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number} dead letters"
