"""Options of the commands that select or list runs."""

import functools
from collections.abc import Callable
from typing import Any, Final, TypedDict

import click

from pyoco_client.cli.arguments import UpperChoice, with_options

STATUSES: Final = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")


class RunFilterOptions(TypedDict):
    """The filters of a list of runs; None is no filter."""

    status: tuple[str, ...] | None
    flow: str | None
    tag: str | None


class RunListOptions(RunFilterOptions):
    """The filters of a list of runs, its length, and the parts of each run."""

    limit: int | None
    include: str | None


def filter_options(*statuses: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds `--status`, `--flow` and `--tag`, as `filters`."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_filters(
            *args: Any,
            status: tuple[str, ...],
            flow: str | None,
            tag: str | None,
            **options: Any,
        ) -> int:
            filters = RunFilterOptions(status=status or None, flow=flow, tag=tag)
            return command(*args, filters=filters, **options)

        return with_options(
            with_filters,
            click.option(
                "--status",
                multiple=True,
                type=UpperChoice(statuses),
                help="Only runs with this status; repeatable.",
            ),
            click.option(
                "--flow", help="Only runs of this flow; a * at the end matches any ending."
            ),
            click.option("--tag", help="Only runs with this routing tag."),
        )

    return decorate


def list_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the filters, `--full` and `--limit` to a command; the command gets them as `query`."""

    @functools.wraps(command)
    def with_query(
        *args: Any, filters: RunFilterOptions, full: bool, limit: int | None, **options: Any
    ) -> int:
        query = RunListOptions(**filters, limit=limit, include="full" if full else None)
        return command(*args, query=query, **options)

    with_list_options = with_options(
        with_query,
        click.option("--full", is_flag=True, help="Whole snapshots, with params and task records."),
        click.option(
            "--limit",
            type=click.IntRange(1, 200),
            help="Maximum number of runs, 1 to 200.  [default: 50]",
        ),
    )
    return filter_options(*STATUSES)(with_list_options)
