"""Prints lists: whole ones as their pages arrive, and what the limit of a list has left out."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.display.output import (
    Form,
    Layout,
    chosen,
    print_json_line,
    print_line,
    print_note,
    print_records,
)

MAX_LIMIT: Final = 200


class _Item(Protocol):
    def as_dict(self) -> dict[str, object]: ...


Item = TypeVar("Item", bound=_Item)


def check_all(*, everything: bool, limit: int | None, command: str) -> None:
    """Raise BadArgumentError for `--all` with `--limit`."""
    if everything and limit is not None:
        raise BadArgumentError(
            "--limit and --all exclude each other", f"pyoco-client {command} --all --output jsonl"
        )


def print_items(
    items: Iterable[Item], form: Form | None, layout: Layout, name: Callable[[Item], str]
) -> None:
    """Print items; `jsonl` and `name` at once, so that a reader does not wait for the last page."""
    if (form := chosen(form)) in (Form.JSONL, Form.NAME):
        for item in items:
            if form is Form.NAME:
                print_line(name(item))
            else:
                print_json_line(item.as_dict())
    else:
        print_records([item.as_dict() for item in items], form, layout)


def note_rest(what: str, *, shown: int, cursor: str | None, total: int | None = None) -> None:
    """Print to stderr that a list goes on after its limit, if it does."""
    if cursor is None:
        return
    rest = "more" if total is None else f"{max(total - shown, 1)} more"
    higher = f"--limit up to {MAX_LIMIT}, or " if shown < MAX_LIMIT else ""
    print_note(f"not listed: {rest} {what} (use {higher}--all)")
