"""Ids that are given as arguments or on stdin, and the question before many are changed."""

import sys
from collections.abc import Iterator, Sequence

import click

from pyoco_client.cli.arguments import BadArgumentError

STDIN = "-"


def named(words: Sequence[str]) -> list[str]:
    """Return what is named, each once, in order; `-` stands for the lines of stdin."""
    return list(dict.fromkeys(_expanded(words)))


def _expanded(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word != STDIN:
            yield word
            continue
        try:
            lines = sys.stdin.read().splitlines()
        except UnicodeDecodeError as error:
            raise BadArgumentError(f"what comes on stdin is no text: {error}") from error
        yield from filter(None, map(str.strip, lines))


def make_sure(question: str, *, yes: bool, example: str) -> None:
    """Ask before many things are changed; end the command where the answer is no.

    Where nobody can be asked, `--yes` must be given.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadArgumentError(f"{question} Nobody is there to say so: add --yes", example)
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmedError


class NotConfirmedError(click.ClickException):
    """The answer was no."""

    def __init__(self) -> None:
        super().__init__("nothing was changed")
