"""The command `pyoco-client`: its global options and its exit codes."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from pyoco_client.cli.arguments import POSITIVE_SECONDS, reject_invalid_utf8
from pyoco_client.cli.command_table import COMMANDS
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Connection
from pyoco_client.cli.display.output import print_note, print_problem
from pyoco_client.cli.examples import examples
from pyoco_client.cli.language import Language, language_for
from pyoco_client.cli.lazy_group import LazyGroup
from pyoco_client.cli.usage_errors import PROGRAM, context_of, explain
from pyoco_client.errors import PyocoError

_LANGUAGES: Final = ["en", "ja"]


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "pyoco-client submit --flow-name hello --param name=world --wait",
        "pyoco-client list --status FAILED",
        "pyoco-client --server http://127.0.0.1:8000 health",
    ),
)
@click.option(
    "--server",
    "server_url",
    metavar="URL",
    help="Address of the gateway (PYOCO_SERVER).  [default: http://127.0.0.1:8000]",
)
@click.option("--api-key", metavar="KEY", help="Key to send with each request (PYOCO_API_KEY).")
@click.option(
    "--api-key-header",
    metavar="NAME",
    help="Header that carries the key (PYOCO_API_KEY_HEADER).  [default: X-API-Key]",
)
@click.option(
    "--context",
    "context_name",
    metavar="NAME",
    help="Take server and key from this context (PYOCO_CONTEXT).",
)
@click.option(
    "--lang",
    type=click.Choice(_LANGUAGES),
    help="Language of messages (PYOCO_LANG).  [default: that of the locale]",
)
@click.option(
    "--timeout",
    type=POSITIVE_SECONDS,
    metavar="SEC",
    help="Maximum time for one answer of the gateway.  [default: 10]",
)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM)
@click.pass_context
def client(
    context: click.Context,
    *,
    server_url: str | None,
    api_key: str | None,
    api_key_header: str | None,
    context_name: str | None,
    lang: Language | None,
    timeout: float | None,
) -> None:
    """Submit Pyoco flows to a Pyoco Server and follow their runs.

    Data goes to stdout: tables on a terminal, JSON in a pipe. Everything else goes to stderr. The
    exit code is 0 for success, 1 for any failure, 130 after Ctrl-C.
    """
    context.obj = Connection(
        server=server_url,
        api_key=api_key,
        api_key_header=api_key_header,
        context=context_name,
        lang=lang,
        timeout=timeout,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdin is None:
        # Python sets stdin to None if it was closed at the start; commands get an empty one.
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    try:
        reject_invalid_utf8(words)
        code = client.main(args=words.copy(), prog_name=PROGRAM, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.UsageError as error:
        if error.ctx is None:
            # click's option parser raises errors without a context.
            error.ctx = context_of(client, words)
        explain(error, words, language_for(words))
        return EXIT_FAILED
    except click.ClickException as error:
        print_note(f"{PROGRAM}: {error.format_message()}")
        return EXIT_FAILED
    except PyocoError as error:
        print_problem(error, language_for(words))
        return EXIT_FAILED
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_FAILED
    except OSError as error:
        _discard_stdout()
        print_note(f"{PROGRAM}: {error}")
        return EXIT_FAILED
    return code if isinstance(code, int) else EXIT_OK


def _discard_stdout() -> None:
    # Stdout cannot be written: its reader has exited, or the disk is full. Without this redirect
    # Python flushes stdout again at exit, prints an error and changes the exit code.
    # A stdout without a file descriptor needs no redirect.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
