"""Options that select executions."""

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click

from pyoco_client.cli.arguments import UpperChoice, with_options

_STATUSES: Final = ("ACTIVE", "COMPLETED", "FAILED", "CANCELED")


def _moment(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> datetime | None:
    """Return a time in the format of RFC 3339; without a time zone it is local time."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        what = f"{value!r} is not a time such as 2026-11-18T03:15:27Z."
        raise click.BadParameter(what, context, parameter) from None


def execution_filter_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the filters of executions to a command; the command gets them as `filters`."""

    @functools.wraps(command)
    def with_filters(
        *args: Any,
        status: tuple[str, ...],
        graph_id: str | None,
        graph_version: int | None,
        label: tuple[str, ...],
        cancel_requested: bool,
        archived: str | None,
        created_after: datetime | None,
        created_before: datetime | None,
        **options: Any,
    ) -> int:
        filters = {
            "status": status or None,
            "graph_id": graph_id,
            "graph_version": graph_version,
            "label": label or None,
            "cancel_requested": cancel_requested or None,
            "archived": archived,
            "created_after": created_after,
            "created_before": created_before,
        }
        return command(*args, filters=filters, **options)

    return with_options(
        with_filters,
        click.option(
            "--status",
            multiple=True,
            type=UpperChoice(_STATUSES),
            help="Only executions with this status; repeatable.",
        ),
        click.option("--graph-id", help="Only executions of this graph."),
        click.option(
            "--graph-version", type=click.IntRange(1), help="Only executions of this version."
        ),
        click.option("--label", multiple=True, help="Only executions with this label; repeatable."),
        click.option(
            "--cancel-requested", is_flag=True, help="Only executions with a cancel request."
        ),
        click.option(
            "--archived",
            type=click.Choice(["true", "false", "any"]),
            help="Archived executions, others, or both.  [default: false]",
        ),
        click.option(
            "--created-after",
            callback=_moment,
            metavar="TIME",
            help="Only executions created after this time, such as 2026-11-18T03:15:27Z.",
        ),
        click.option(
            "--created-before",
            callback=_moment,
            metavar="TIME",
            help="Only executions created before this time; without a time zone it is local time.",
        ),
    )
