"""Ids from arguments or stdin, and the confirmation before a command changes many things."""

import sys
from collections.abc import Iterator, Sequence

import click

from pyoco_client.cli.arguments import BadArgumentError

STDIN = "-"


def ids_in(words: Sequence[str]) -> list[str]:
    """Return the ids in their order, each once; `-` stands for the lines of stdin."""
    return list(dict.fromkeys(_expanded(words)))


def is_single(words: Sequence[str]) -> bool:
    """Return whether the command line names exactly one id: the answer is then no list.

    It does not depend on what stdin has, so a script always gets the same form.
    """
    return len(words) == 1 and words[0] != STDIN


def _expanded(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word != STDIN:
            yield word
            continue
        try:
            lines = sys.stdin.read().splitlines()
        except UnicodeDecodeError as error:
            raise BadArgumentError(f"stdin is not text: {error}") from error
        yield from filter(None, map(str.strip, lines))


def confirm(question: str, *, yes: bool, example: str) -> None:
    """Ask the user for confirmation; raise NotConfirmedError if the answer is not yes.

    `yes` answers in advance. Without it stdin must be a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadArgumentError(f"{question} stdin is not a terminal: confirm with --yes", example)
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmedError


class NotConfirmedError(click.ClickException):
    """The user did not confirm the change."""

    def __init__(self) -> None:
        super().__init__("nothing was changed")
