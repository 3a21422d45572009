"""The command itself: its global options, and how each way of ending becomes an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from pyoco_client.cli import runs, server
from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Connection
from pyoco_client.cli.output import print_bad_arguments, print_note, print_problem
from pyoco_client.errors import PyocoError

PROGRAM: Final = "pyoco-client"

_EXAMPLES: Final = {
    "submit": "pyoco-client submit --flow-name hello --param name=world",
    "get": "pyoco-client get --run-id 7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "tasks": "pyoco-client tasks --run-id 7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "health": "pyoco-client --server http://127.0.0.1:8000 health",
}
_DEFAULT_EXAMPLE: Final = _EXAMPLES["submit"]


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    "server_url",
    metavar="URL",
    envvar="PYOCO_SERVER",
    default="http://127.0.0.1:8000",
    show_default=True,
    show_envvar=True,
    help="Address of the gateway.",
)
@click.option(
    "--api-key", envvar="PYOCO_API_KEY", show_envvar=True, help="Key to send with each request."
)
@click.option(
    "--api-key-header", default="X-API-Key", show_default=True, help="Header that carries the key."
)
@click.option(
    "--request-timeout-sec",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long to wait for one answer of the gateway.",
)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM)
@click.pass_context
def client(
    context: click.Context,
    server_url: str,
    api_key: str | None,
    api_key_header: str,
    request_timeout_sec: float,
) -> None:
    """Submit Pyoco flows to a Pyoco Server and see what becomes of them.

    Data goes to stdout as JSON, everything else to stderr. The exit code is 0 for success, 1 for
    any failure, 130 after Ctrl-C.
    """
    context.obj = Connection(server_url, api_key, api_key_header, request_timeout_sec)


for _command in (*runs.COMMANDS, *server.COMMANDS):
    client.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        code = client.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        _explain(error)
        return EXIT_FAILED
    except click.ClickException as error:
        print_note(f"{PROGRAM}: {error.format_message()}")
        return EXIT_FAILED
    except PyocoError as error:
        print_problem(error)
        return EXIT_FAILED
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; without this Python complains once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return code if isinstance(code, int) else EXIT_OK


def _explain(error: click.UsageError) -> None:
    name = error.ctx.info_name if error.ctx is not None else None
    example = error.example if isinstance(error, BadArgumentError) else None
    print_bad_arguments(
        error.format_message(),
        example=example or _EXAMPLES.get(name or "", _DEFAULT_EXAMPLE),
        help_command=f"{error.ctx.command_path if error.ctx is not None else PROGRAM} --help",
    )
