"""A group of commands that loads a command when it is called, and knows what a typo meant."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click


class Verb(NamedTuple):
    """Where a command is found (`module:attribute`), and what the list of commands says of it."""

    target: str
    summary: str


class NoSuchCommandError(click.UsageError):
    """There is no command of this name; `meant` is the one that looks most like it, if any."""

    def __init__(self, name: str, known: Sequence[str], context: click.Context) -> None:
        super().__init__(f"No such command {name!r}.", context)
        self.name = name
        self.known = known
        self.meant = next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)

    def format_message(self) -> str:
        """Return what is wrong, with the command that was meant, or with all there are."""
        if self.meant is not None:
            return f"{self.message} Did you mean {self.meant}?"
        return f"{self.message} There are: {', '.join(self.known)}."


class HelpfulGroup(click.Group):
    """A group whose answer to an unknown command names the one that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, and the arguments after it."""
        name = args[0]
        looks_like_an_option = name.startswith("-") and name != "-"
        if not looks_like_an_option and self.get_command(ctx, name) is None:
            raise NoSuchCommandError(name, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(HelpfulGroup):
    """A group of commands that are imported one by one, each when it is called.

    `--help` prints the summaries of the table and imports none of them.
    """

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None."""
        verb = self.verbs.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.target} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in self.verbs.items()])
