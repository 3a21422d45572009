"""The command `pyoco-server`."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from pyoco_gateway.commands.entry_point import lang_option, run_entry_point
from pyoco_protocol.problems import CliUsageError, SettingsError

PROGRAM: Final = "pyoco-server"

_EXAMPLES: Final[Mapping[str, str]] = {
    "up": "pyoco-server up --host 127.0.0.1 --port 8000 --nats-url nats://127.0.0.1:4222",
    "dev": "pyoco-server dev --port 8000 --nats-port 4222",
}
_PORT: Final = click.IntRange(0, 65535)
_DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)


def _host_and_port(command: Any) -> Any:
    # Decorators apply from the inside out: the last option is listed first in the help.
    for option in (
        click.option(
            "--insecure",
            is_flag=True,
            help="Allow an address that other machines can reach while authentication is off.",
        ),
        lang_option,
        click.option(
            "--dashboard-lang",
            type=click.Choice(["auto", "ja", "en"], case_sensitive=False),
            help="Language of the web pages (PYOCO_DASHBOARD_LANG).",
        ),
        click.option(
            "--log-level",
            type=click.Choice(
                ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False
            ),
            help="Minimum level of log messages (PYOCO_LOG_LEVEL).",
        ),
        click.option(
            "--port",
            type=_PORT,
            default=8000,
            show_default=True,
            help="Port to listen on; 0 chooses a free one.",
        ),
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
        ),
    ):
        command = option(command)
    return command


def _start_timeout(command: Any) -> Any:
    return click.option(
        "--nats-start-timeout-sec",
        type=click.FloatRange(min=0.1),
        default=10.0,
        show_default=True,
        help="Seconds to wait for the NATS server to be ready.",
    )(command)


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@lang_option
@click.version_option(package_name="pyoco-gateway", prog_name=PROGRAM)
def server() -> None:
    """Run the HTTP gateway of Pyoco Server.

    Exit codes: 0 after a normal stop, 1 after a failure, 130 after Ctrl-C.
    """


@server.command()
@_host_and_port
@click.option("--nats-url", help="Address of NATS (PYOCO_NATS_URL).")
@click.option("--with-nats", is_flag=True, help="Also start a NATS server.")
@click.option(
    "--with-nats-bootstrap",
    is_flag=True,
    help="Also start a NATS server, through the command nats-bootstrap.",
)
@click.option("--nats-port", type=_PORT, help="Port of the started NATS server.  [4222]")
@click.option(
    "--data-dir",
    type=_DIRECTORY,
    help="Data directory of the started NATS server.  [.pyoco/server]",
)
@_start_timeout
def up(
    *,
    host: str,
    port: int,
    log_level: str | None,
    dashboard_lang: str | None,
    insecure: bool,
    nats_url: str | None,
    with_nats: bool,
    with_nats_bootstrap: bool,
    nats_port: int | None,
    data_dir: Path | None,
    nats_start_timeout_sec: float,
) -> int:
    """Start the gateway.

    \b
    pyoco-server up --nats-url nats://broker.example:4222
    pyoco-server up --with-nats
    """
    own_broker = with_nats or with_nats_bootstrap
    if with_nats and with_nats_bootstrap:
        _refuse("--with-nats and --with-nats-bootstrap cannot be combined", "--with-nats")
    if own_broker and nats_url is not None:
        _refuse("--nats-url cannot be combined with --with-nats", "--with-nats")
    if nats_url is not None and not nats_url.strip():
        _refuse("--nats-url is empty", "--nats-url nats://127.0.0.1:4222")
    if not own_broker and (nats_port, data_dir) != (None, None):
        _refuse("--nats-port and --data-dir need --with-nats", "--with-nats --nats-port 4223")

    from pyoco_gateway.commands.host_option import settings_for_host
    from pyoco_gateway.commands.up import BrokerChoice
    from pyoco_gateway.commands.up import up as run_up
    from pyoco_gateway.process_log import start_logging
    from pyoco_gateway.settings import environment_with, gateway_settings

    environ = environment_with(
        {
            "PYOCO_NATS_URL": nats_url,
            "PYOCO_LOG_LEVEL": log_level,
            "PYOCO_DASHBOARD_LANG": dashboard_lang,
        }
    )
    try:
        settings = gateway_settings(environ)
    except SettingsError as error:
        if nats_url is not None and error.problems[0].variable == "PYOCO_NATS_URL":
            _refuse(f"--nats-url: {error.problems[0].what}", "--nats-url nats://127.0.0.1:4222")
        raise
    start_logging(settings.log, environ)
    settings = settings_for_host(settings, host, insecure=insecure, command=f"{PROGRAM} up")
    broker = BrokerChoice(
        directory=(data_dir or Path(".pyoco/server")).resolve(),
        port=4222 if nats_port is None else nats_port,
        start_timeout_sec=nats_start_timeout_sec,
        by_bootstrap=with_nats_bootstrap,
    )
    return run_up(settings, host, port, broker if own_broker else None, environ)


@server.command()
@_host_and_port
@click.option(
    "--nats-port", type=_PORT, default=4222, show_default=True, help="Port of the NATS server."
)
@click.option(
    "--data-dir",
    type=_DIRECTORY,
    default=Path(".pyoco/dev"),
    show_default=True,
    help="Directory for data and logs.",
)
@click.option("--clean", is_flag=True, help="Delete the data of earlier starts first.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Maximum number of concurrent runs.  [number of CPUs]",
)
@_start_timeout
def dev(
    *,
    host: str,
    port: int,
    log_level: str | None,
    dashboard_lang: str | None,
    insecure: bool,
    nats_port: int,
    data_dir: Path,
    clean: bool,
    concurrency: int | None,
    nats_start_timeout_sec: float,
) -> int:
    """Start a NATS server, the gateway, and a worker with three demo flows.

    \b
    pyoco-server dev
    pyoco-server dev --clean --port 8001 --nats-port 4223
    """
    started_at = time.monotonic()
    from pyoco_gateway.commands.dev import DevOptions
    from pyoco_gateway.commands.dev import dev as run_dev
    from pyoco_gateway.commands.host_option import settings_for_host
    from pyoco_gateway.process_log import start_logging
    from pyoco_gateway.settings import environment_with, gateway_settings

    environ = environment_with(
        {"PYOCO_LOG_LEVEL": log_level, "PYOCO_DASHBOARD_LANG": dashboard_lang},
        # The command runs in a terminal.
        defaults={"PYOCO_LOG_FORMAT": "text", "PYOCO_LOG_LEVEL": "WARNING"},
    )
    settings = gateway_settings(environ)
    start_logging(settings.log, environ, stream=sys.stderr)
    settings = settings_for_host(settings, host, insecure=insecure, command=f"{PROGRAM} dev")
    options = DevOptions(
        host=host,
        port=port,
        nats_port=nats_port,
        directory=data_dir,
        clean=clean,
        concurrency=concurrency,
        start_timeout_sec=nats_start_timeout_sec,
    )
    return run_dev(settings, options, started_at)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 0, 1 or 130."""
    return run_entry_point(server, PROGRAM, arguments, examples=_EXAMPLES, default="up")


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run())


def _refuse(what: str, flags: str) -> NoReturn:
    raise CliUsageError(what, f"{PROGRAM} up {flags}")
