"""The examples in the help of each command, which errors quote and tests execute."""

from typing import Final

import click

# The ids in examples; readers replace them by their own.
RUN_ID: Final = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
EXECUTION_ID: Final = "5b0d7c1a-27a4-5f6e-8f1d-94c5e0b3a762"


def examples(*lines: str) -> str:
    """Return the epilog of a command's help with these command lines.

    Usage errors of the command show the first one.
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def examples_of(command: click.Command) -> list[str]:
    """Return the command lines that the help of a command shows."""
    lines = (line.strip() for line in (command.epilog or "").splitlines())
    return [line for line in lines if line and line not in ("\b", "Examples:")]


def hint_for(context: click.Context | None, name: str | None = None) -> str:
    """Return a correct command line for the command of `context`, to show with a usage error.

    With `name`, for the command of that name in the group of `context`.
    """
    if context is not None and name is not None and isinstance(context.command, click.Group):
        command = context.command.get_command(context, name)
        if command is not None and (found := examples_of(command)):
            return found[0]
    while context is not None:
        if found := examples_of(context.command):
            return found[0]
        context = context.parent
    return "pyoco-client submit --flow-name hello --param name=world"
