"""Commands that list runs: list, list-vnext."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from pyoco_client.cli.arguments import BadArgumentError, UpperChoice
from pyoco_client.cli.connection import EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.layouts import RUNS
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    data_output,
    print_json_line,
    print_line,
    print_note,
    print_records,
)
from pyoco_client.cli.examples import examples

STATUSES: Final = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")
_MAX_LIMIT: Final = 200
_LIMIT: Final = click.IntRange(1, _MAX_LIMIT)

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def filter_options(*statuses: str) -> Callable[[_Decorated], _Decorated]:
    """Return what gives a command `--status`, `--flow` and `--tag`."""

    def decorate(command: _Decorated) -> _Decorated:
        for option in (
            click.option("--tag", help="Only runs with this routing tag."),
            click.option(
                "--flow", help="Only runs of this flow; with * at its end, all that begin so."
            ),
            click.option(
                "--status",
                "statuses",
                multiple=True,
                type=UpperChoice(statuses),
                help="Only runs of this status; repeatable.",
            ),
        ):
            command = option(command)
        return command

    return decorate


def _full_option(command: _Decorated) -> _Decorated:
    return click.option(
        "--full", is_flag=True, help="Whole snapshots, with params and task records."
    )(command)


@click.command(
    epilog=examples(
        "pyoco-client list --status FAILED --limit 20",
        "pyoco-client list --flow 'hel*' --output json",
        "pyoco-client list --status RUNNING --status PENDING --output name",
        "pyoco-client list --all --output jsonl",
    ),
)
@filter_options(*STATUSES)
@_full_option
@click.option("--limit", type=_LIMIT, help="How many at most, 1 to 200.  [default: 50]")
@click.option(
    "--all", "everything", is_flag=True, help="All that match, in the order of submission."
)
@data_output
@pass_connection
def list_runs(
    connection: Connection,
    *,
    statuses: tuple[str, ...],
    flow: str | None,
    tag: str | None,
    full: bool,
    limit: int | None,
    everything: bool,
    form: Form | None,
) -> int:
    """List runs, the latest change first."""
    if everything and limit is not None:
        raise BadArgumentError(
            "--limit and --all exclude each other", "pyoco-client list --all --output jsonl"
        )
    query: dict[str, Any] = {
        "status": statuses or None,
        "flow": flow,
        "tag": tag,
        "include": "full" if full else None,
    }
    with connection.open() as client:
        if not everything:
            items = [item.as_dict() for item in client.runs.list(**query, limit=limit)]
            print_records(items, form, RUNS)
        elif (form := chosen(form)) in (Form.JSONL, Form.NAME):
            # Page by page, so that there is something to read at once.
            for item in client.runs.iter(**query):
                if form is Form.NAME:
                    print_line(item.run_id)
                else:
                    print_json_line(item.as_dict())
        else:
            print_records([item.as_dict() for item in client.runs.iter(**query)], form, RUNS)
    return EXIT_OK


@click.command(
    epilog=examples(
        "pyoco-client list-vnext --updated-after 0 --limit 100",
        "pyoco-client list-vnext --status FAILED --output table",
    ),
)
@filter_options(*STATUSES)
@_full_option
@click.option("--limit", type=_LIMIT, help="How many at most, 1 to 200.  [default: 50]")
@click.option("--updated-after", type=float, help="Changes after this time; unix seconds.")
@click.option("--cursor", help="Go on where a page ended: its next_cursor.")
@click.option("--workflow-yaml-sha256", help="Only runs of the workflow file with this hash.")
@data_output
@pass_connection
def list_vnext(
    connection: Connection,
    *,
    statuses: tuple[str, ...],
    flow: str | None,
    tag: str | None,
    full: bool,
    limit: int | None,
    updated_after: float | None,
    cursor: str | None,
    workflow_yaml_sha256: str | None,
    form: Form | None,
) -> int:
    """List changes of runs, page by page.

    The oldest change comes first. Pass the next_cursor of each page on as --cursor, and no change
    is missed; an empty page says that you are up to date. Where changes are listed as a table or
    as lines, next_cursor is told on stderr.
    """
    with connection.open() as client:
        page = client.runs.page(
            status=statuses or None,
            flow=flow,
            tag=tag,
            workflow_yaml_sha256=workflow_yaml_sha256,
            # Without either there is no delta, only the latest runs.
            updated_after=0.0 if updated_after is None and cursor is None else updated_after,
            cursor=cursor,
            limit=limit,
            include="full" if full else None,
        ).as_dict()
    print_records(page["items"], form, RUNS, document=page)
    if chosen(form) is not Form.JSON:
        print_note(f"next_cursor: {page.get('next_cursor')}")
    return EXIT_OK
