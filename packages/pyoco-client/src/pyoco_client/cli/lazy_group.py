"""Command groups that import a command when it is called and suggest one for a typo."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click


class CommandEntry(NamedTuple):
    """The place of a command (`module:attribute`), and its line in the list of commands."""

    target: str
    summary: str


class NoSuchCommandError(click.UsageError):
    """There is no command of this name; `meant` is the most similar one, if any."""

    def __init__(self, name: str, known: Sequence[str], context: click.Context) -> None:
        super().__init__(f"No such command {name!r}.", context)
        self.name = name
        self.known = known
        self.meant = next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)

    def format_message(self) -> str:
        """Return the error with the command that was probably meant, or with all commands."""
        if self.meant is not None:
            return f"{self.message} Did you mean {self.meant}?"
        return f"{self.message} There are: {', '.join(self.known)}."


class HelpfulGroup(click.Group):
    """A group that answers an unknown command with the most similar one."""

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
    """A group that imports each command when it is called.

    `--help` prints the summaries of `entries` and imports no command.
    """

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
