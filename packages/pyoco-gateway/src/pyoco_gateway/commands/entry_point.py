"""Runs a click command; prints each failure with its id and advice, and returns an exit code."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from pyoco_gateway.commands.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from pyoco_protocol.command_language import LANGUAGES
from pyoco_protocol.problems import CliUsageError, Language, PyocoError
from pyoco_protocol.settings import command_language

# An API key in a wrong place of the command line, ours or an earlier server's; its secret must not
# be printed.
_SECRET: Final = re.compile(r"(pyoco_(?:[a-z2-7]{12}_|[0-9a-f]{24}\.))[A-Za-z0-9_-]+")


def run_entry_point(
    group: click.Group,
    program: str,
    arguments: Sequence[str] | None,
    *,
    examples: Mapping[str, str],
    default: str,
) -> int:
    """Run a command line; return its exit code: 0, 1 or 130.

    Errors are printed in the language of `--lang` or the locale. `examples` holds an example for
    each subcommand; errors elsewhere show that of `default`.
    """
    language = command_language(sys.argv[1:] if arguments is None else arguments)
    try:
        code = group.main(args=arguments, prog_name=program, standalone_mode=False)
    except click.UsageError as error:
        name = error.ctx.info_name if error.ctx is not None else None
        what = _SECRET.sub(r"\1…", error.format_message().rstrip("."))
        usage = CliUsageError(what, examples.get(name or "", examples[default]))
        return explain(usage, program, language)
    except click.ClickException as error:
        usage = CliUsageError(error.format_message(), examples[default])
        return explain(usage, program, language)
    except PyocoError as error:
        return explain(error, program, language)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else EXIT_OK


def explain(error: PyocoError, program: str, language: Language) -> int:
    """Print the error and its advice to stderr; return the exit code."""
    if isinstance(error, CliUsageError):
        what = error.detail.removesuffix(f"; example: {error.example}")
        advice = [f"example: {error.example}"]
    else:
        what, advice = error.detail, []
    click.echo(f"{program}: {what} [{error.entry.err_id}]", err=True)
    for line in (*advice, error.message(language), error.hint(language)):
        click.echo(f"  {line}", err=True)
    return EXIT_FAILED


def lang_option(command: Any) -> Any:
    """Add the option `--lang` to a command; `run_entry_point` reads it."""
    return click.option(
        "--lang",
        type=click.Choice(LANGUAGES),
        expose_value=False,
        help="Language of error messages (PYOCO_LANG).  [default: that of the locale]",
    )(command)
