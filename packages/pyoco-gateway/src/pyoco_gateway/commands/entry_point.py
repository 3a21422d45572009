"""Runs a click command; prints each failure with its id and advice, and returns an exit code."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import click

from pyoco_gateway.commands.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from pyoco_protocol.problems import CliUsageError, PyocoError

# An API key in a wrong place of the command line; its secret must not be printed.
_SECRET: Final = re.compile(r"(pyoco_[a-z2-7]{12}_)[A-Za-z0-9_-]+")


def run_entry_point(
    group: click.Group,
    program: str,
    arguments: Sequence[str] | None,
    *,
    examples: Mapping[str, str],
    default: str,
) -> int:
    """Run a command line; return its exit code: 0, 1 or 130.

    `examples` holds an example for each subcommand; errors elsewhere show that of `default`.
    """
    try:
        code = group.main(args=arguments, prog_name=program, standalone_mode=False)
    except click.UsageError as error:
        name = error.ctx.info_name if error.ctx is not None else None
        what = _SECRET.sub(r"\1…", error.format_message().rstrip("."))
        return explain(CliUsageError(what, examples.get(name or "", examples[default])), program)
    except click.ClickException as error:
        return explain(CliUsageError(error.format_message(), examples[default]), program)
    except PyocoError as error:
        return explain(error, program)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else EXIT_OK


def explain(error: PyocoError, program: str) -> int:
    """Print the error and its advice to stderr; return the exit code."""
    if isinstance(error, CliUsageError):
        what = error.detail.removesuffix(f"; example: {error.example}")
        advice = [f"example: {error.example}", error.hint()]
    else:
        what, advice = error.detail, [error.hint()]
    click.echo(f"{program}: {what} [{error.entry.err_id}]", err=True)
    for line in advice:
        click.echo(f"  {line}", err=True)
    return EXIT_FAILED
