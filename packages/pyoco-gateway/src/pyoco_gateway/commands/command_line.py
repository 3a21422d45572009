"""How a command is run: every failure is told with its id and what to do, and has one exit code."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import click

from pyoco_gateway.commands.stopping import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from pyoco_protocol.problems import CliUsageError, PyocoError

# A key that was given where none belongs is not repeated.
_SECRET: Final = re.compile(r"(pyoco_[a-z2-7]{12}_)[A-Za-z0-9_-]+")


def run_command(
    group: click.Group,
    program: str,
    arguments: Sequence[str] | None,
    *,
    examples: Mapping[str, str],
    default: str,
) -> int:
    """Run a command line; return its exit code: 0, 1 or 130.

    `examples` are by the name of the command; `default` names that for all others.
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
    """Say on stderr what is wrong and what to do about it; return the exit code."""
    if isinstance(error, CliUsageError):
        what = error.detail.removesuffix(f"; example: {error.example}")
        advice = [f"example: {error.example}", error.hint()]
    else:
        what, advice = error.detail, [error.hint()]
    click.echo(f"{program}: {what} [{error.entry.err_id}]", err=True)
    for line in advice:
        click.echo(f"  {line}", err=True)
    return EXIT_FAILED
