"""The commands `dlq list`, `dlq show`, `dlq redrive` and `dlq discard`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from pyoco_client.cli.arguments import BadArgumentError, Decorated, checked_run_id, with_options
from pyoco_client.cli.bulk import confirm, ids_in, is_single
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
from pyoco_client.errors import PyocoApiError

if TYPE_CHECKING:
    from pyoco_client import Client
_BULK_EXAMPLE: Final = "pyoco-client dlq redrive --reason execution_error --yes"
_SEQS: Final = click.argument("words", nargs=-1, metavar="[SEQ|-]...")


def _filters(command: Decorated) -> Decorated:
    return with_options(
        command,
        click.option("--reason", help="Only letters with this reason, such as execution_error."),
        click.option("--tag", help="Only letters of jobs with this tag."),
        click.option("--run-id", help="Only letters of this run."),
    )


@click.group(
    cls=HelpfulGroup,
    no_args_is_help=False,
    epilog=examples("pyoco-client dlq list --reason execution_error"),
)
def dlq() -> None:
    """List, redrive and discard dead letters.

    A job that cannot be run leaves a dead letter. After fixing the cause, redrive the letter: it
    is repeated as a new run.
    """


@dlq.command(
    "list",
    epilog=examples(
        "pyoco-client dlq list --reason execution_error",
        "pyoco-client dlq list --tag default --limit 10 --output wide",
    ),
)
@_filters
@click.option(
    "--limit", type=click.IntRange(1, 200), help="Maximum number of letters.  [default: 50]"
)
@click.option("--cursor", help="Continue after a page: its next_cursor.")
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
    """Print one dead letter with all its fields."""
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
@click.option(
    "--max", "limit", type=click.IntRange(1, 1000), help="Maximum number of letters per call."
)
@click.option(
    "--rate-per-sec", type=click.FloatRange(0.1, 1000), help="Maximum number of letters per second."
)
@click.option("--dry-run", is_flag=True, help="List the letters to redrive, and change nothing.")
@click.option("--yes", is_flag=True, help="Redrive all matching letters without a question.")
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

    Give letters by their sequence numbers, as arguments or on stdin (-), or select them by
    --reason, --tag and --run-id. A letter is redriven once, even if the command is repeated.
    """
    filters: dict[str, Any] = {
        "reason": reason,
        "tag": tag,
        "run_id": None if run_id is None else checked_run_id(run_id),
        "every": every,
    }
    by_filter = any(filters.values())
    if bool(words) == by_filter:
        what = "exclude each other" if words else "are missing: give one or the other"
        raise BadArgumentError(f"SEQ and --reason, --tag, --run-id, --all {what}")
    if words:
        if dry_run or limit is not None or rate_per_sec is not None:
            raise BadArgumentError(
                "--dry-run, --max and --rate-per-sec need --reason, --tag, --run-id or --all",
                "pyoco-client dlq redrive --reason execution_error --dry-run",
            )
        return _redrive_named(connection, words, form)
    with connection.open() as client:
        limits: dict[str, Any] = {**filters, "limit": limit, "rate_per_sec": rate_per_sec}
        if not dry_run and not yes:
            matched = client.dlq.redrive_all(**limits, dry_run=True).matched
            confirm(f"Redrive {_counted(matched)}?", yes=yes, example=_BULK_EXAMPLE)
        report = client.dlq.redrive_all(**limits, dry_run=dry_run).as_dict()
    print_records(report["redriven"], form, REDRIVEN, document=report)
    for failure in report["failed"]:
        print_note(f"{failure['seq']}: {failure['err_id']}: {failure['detail']}")
    if report["remaining"]:
        print_note("more letters match: repeat the command to redrive them")
    return EXIT_FAILED if report["failed"] else EXIT_OK


def _redrive_named(connection: Connection, words: Sequence[str], form: Form | None) -> int:
    code, redriven = _for_each(
        connection, words, lambda client, seq: client.dlq.redrive(seq).as_dict()
    )
    if is_single(words):
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
    """Delete dead letters; their runs do not change."""
    if not words:
        raise BadArgumentError("Missing argument 'SEQ'.")
    code, discarded = _for_each(connection, words, _discarded)
    print_records(discarded, form, DISCARDED)
    return code


def _discarded(client: "Client", seq: int) -> dict[str, Any]:
    client.dlq.discard(seq)
    return {"seq": seq, "discarded": True}


def _for_each(
    connection: Connection,
    words: Sequence[str],
    action: Callable[["Client", int], dict[str, Any]],
) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the results of an action on each letter.

    An error about one of several letters is printed, and the others are still processed.
    """
    sequences = _sequences(words)
    code, results = EXIT_OK, list[dict[str, Any]]()
    with connection.open() as client:
        for seq in sequences:
            try:
                results.append(action(client, seq))
            except PyocoApiError as error:
                if is_single(words):
                    raise
                print_problem(error)
                code = EXIT_FAILED
    return code, results


def _sequences(words: Sequence[str]) -> list[int]:
    sequences = []
    for word in ids_in(words):
        if not word.isdecimal() or int(word) < 1:
            raise BadArgumentError(
                f"{word!r} is not the sequence number of a dead letter;"
                " list them: pyoco-client dlq list -o name"
            )
        sequences.append(int(word))
    return sequences


def _counted(number: int) -> str:
    return "1 dead letter" if number == 1 else f"{number} dead letters"
