"""The command `pyoco-server-admin`; each group of subcommands is a module beside this one."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import click

from pyoco_gateway.commands.admin import api_keys, nats_config
from pyoco_gateway.commands.command_line import run_command

PROGRAM: Final = "pyoco-server-admin"

_EXAMPLES: Final[Mapping[str, str]] = {**api_keys.EXAMPLES, **nats_config.EXAMPLES}


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyoco-gateway", prog_name=PROGRAM)
def admin() -> None:
    """Look after a Pyoco Server: who may use it, and its broker.

    The broker is found as the server finds it: by PYOCO_NATS_URL and the other settings, in the
    environment or in the .env file.

    The exit code is 0 when it is done, 1 for any failure, 130 after Ctrl-C.
    """


admin.add_command(api_keys.api_key)
admin.add_command(nats_config.nats_config)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 0, 1 or 130."""
    return run_command(admin, PROGRAM, arguments, examples=_EXAMPLES, default="create")


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run())
