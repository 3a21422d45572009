"""The command `pyoco-server-admin`; each group of subcommands has its own module."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import click

from pyoco_gateway.commands.admin import api_keys, nats_config
from pyoco_gateway.commands.entry_point import lang_option, run_entry_point

PROGRAM: Final = "pyoco-server-admin"

_EXAMPLES: Final[Mapping[str, str]] = {**api_keys.EXAMPLES, **nats_config.EXAMPLES}


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@lang_option
@click.version_option(package_name="pyoco-gateway", prog_name=PROGRAM)
def admin() -> None:
    """Manage API keys and the broker configuration of a Pyoco Server.

    The command connects to the broker with the same settings as the server: PYOCO_NATS_URL and
    others, from the environment or the .env file.

    Exit codes: 0 for success, 1 after a failure, 130 after Ctrl-C.
    """


admin.add_command(api_keys.api_key)
admin.add_command(nats_config.nats_config)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 0, 1 or 130."""
    return run_entry_point(admin, PROGRAM, arguments, examples=_EXAMPLES, default="create")


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run())
