"""The command `pyoco-worker`."""

import importlib.util
import logging
import os
import re
import signal
import sys
from pathlib import Path

import anyio
import click

from pyoco_protocol.command_language import LANGUAGES
from pyoco_protocol.ids import MAX_WORKER_ID_CHARS, WORKER_ID_PATTERN, is_tag
from pyoco_protocol.logging.setup import configure_logging
from pyoco_protocol.problems import CliUsageError, PyocoError
from pyoco_protocol.process_memory import tune_garbage_collector
from pyoco_protocol.settings import (
    command_language,
    read_environment,
    settings_notes,
    unknown_variables,
)
from pyoco_protocol.task_groups import plain_errors
from pyoco_worker import __version__
from pyoco_worker.config import Flags, WorkerConfig, log_settings, worker_config

_EXAMPLE = "pyoco-worker --tags default --flow-resolver my_flows.py:resolve"
_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class _Tags(click.ParamType):  # type: ignore[type-arg,unused-ignore] # generic from 8.4 on
    name = "TAG,TAG"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        tags = tuple(dict.fromkeys(tag.strip() for tag in str(value).split(",") if tag.strip()))
        invalid = [tag for tag in tags if not is_tag(tag)]
        if invalid or not tags:
            self.fail(
                f"{', '.join(invalid) or value!r}: use letters, digits, '_' and '-' only, "
                "for example --tags default,gpu",
                param,
                ctx,
            )
        return tags


def _worker_id(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and (
        len(value) > MAX_WORKER_ID_CHARS or not re.fullmatch(WORKER_ID_PATTERN, value)
    ):
        raise click.BadParameter(
            f"{value!r}: letters, digits, '_', '.' and '-' only, for example --worker-id gpu-1"
        )
    return value


def _nats_url(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    # An empty variable counts as not set; an empty option is a mistake.
    if value is not None and not value.strip():
        raise click.BadParameter("is empty, for example --nats-url nats://127.0.0.1:4222")
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--nats-url",
    metavar="URL",
    callback=_nats_url,
    help="Address of NATS. [env: PYOCO_NATS_URL]",
)
@click.option(
    "--tags",
    type=_Tags(),
    help="Take runs that have one of these tags. [default: PYOCO_DEFAULT_TAG]",
)
@click.option(
    "--worker-id",
    metavar="ID",
    callback=_worker_id,
    help="Id of this worker. [default: <hostname>-<pid>]",
)
@click.option(
    "--flow-resolver",
    metavar="SPEC",
    help="Function that returns a flow by name, as module:function or path/to/file.py:function."
    " [default: installed pyoco.flows entry points]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of concurrent runs, each in its own process. [default: number of CPUs]",
)
@click.option(
    "--poll-timeout",
    type=click.FloatRange(0.1, 600),
    default=5.0,
    show_default=True,
    metavar="SEC",
    help="How long one pull request for jobs stays open.",
)
@click.option(
    "--drain-timeout-sec",
    type=click.FloatRange(0, 86400),
    default=30.0,
    show_default=True,
    metavar="SEC",
    help="How long runs may continue after SIGTERM before they are given back to the queue.",
)
@click.option("--run-once", is_flag=True, help="Wait for one job up to --poll-timeout, then exit.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for the working directories of runs. [env: PYOCO_WORKER_DATA_DIR]",
)
@click.option(
    "--child-user",
    metavar="NAME",
    help="User that flows run as; the worker must run as root. [env: PYOCO_CHILD_USER]",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    help="Minimum log level. [env: PYOCO_LOG_LEVEL]",
)
@click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    expose_value=False,
    help="Language of error messages. [env: PYOCO_LANG; default: that of the locale]",
)
@click.version_option(__version__, prog_name="pyoco-worker")
def command(
    *,
    nats_url: str | None,
    tags: tuple[str, ...] | None,
    worker_id: str | None,
    flow_resolver: str | None,
    concurrency: int | None,
    poll_timeout: float,
    drain_timeout_sec: float,
    run_once: bool,
    data_dir: Path | None,
    child_user: str | None,
    log_level: str | None,
) -> None:
    """Take runs from the queue and execute each one's flow in a child process.

    \b
    Examples:
      pyoco-worker --flow-resolver my_flows.py:resolve
      pyoco-worker --tags cpu,gpu --concurrency 4 --flow-resolver my_package.flows:resolve
    """
    environ = read_environment()
    if nats_url is not None:
        environ["PYOCO_NATS_URL"] = nats_url
    flags = Flags(
        tags=tags or (),
        worker_id=worker_id,
        resolver=_absolute(flow_resolver),
        concurrency=concurrency,
        poll_timeout_sec=poll_timeout,
        run_once=run_once,
        drain_timeout_sec=drain_timeout_sec,
        data_directory=data_dir,
        child_user=child_user,
    )
    config = worker_config(flags, environ)
    configure_logging(service="pyoco-server:worker", settings=log_settings(environ, log_level))
    _warn_about_settings(environ)
    _warn_about_limits(config)
    anyio.run(_serve, config, backend_options={"use_uvloop": _has_uvloop()})


async def _serve(config: WorkerConfig) -> None:
    from pyoco_worker.children.child_process import ChildExitedError, ChildUnusableError
    from pyoco_worker.worker import Worker

    tune_garbage_collector()
    worker = Worker(config)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received, plain_errors():
        async with anyio.create_task_group() as tasks:
            signals: list[int] = []

            async def stop_on_signal() -> None:
                async for number in received:
                    if signals:
                        worker.hurry()
                    signals.append(number)
                    worker.stop()

            tasks.start_soon(stop_on_signal)
            try:
                await worker.run()
            except (ChildUnusableError, ChildExitedError) as error:
                raise CliUsageError(f"--flow-resolver: {error}", _EXAMPLE) from error
            tasks.cancel_scope.cancel()
    if signal.SIGINT in signals:
        raise KeyboardInterrupt


def _absolute(resolver: str | None) -> str | None:
    """Return the resolver with the path of its file made absolute."""
    if resolver is None:
        return None
    place, separator, name = resolver.rpartition(":")
    if place.endswith(".py"):
        return f"{Path(place).absolute()}{separator}{name}"
    return resolver


def _warn_about_settings(environ: dict[str, str]) -> None:
    log = logging.getLogger(__name__)
    for unknown in unknown_variables(environ):
        log.warning(
            "unknown variable has no effect",
            extra={"variable": unknown.name, "meant": unknown.nearest},
        )
    for note in settings_notes(environ):
        log.warning(note)


def _warn_about_limits(config: WorkerConfig) -> None:
    log = logging.getLogger(__name__)
    is_root = os.geteuid() == 0 if config.child_user is None else config.child_user.uid == 0
    if config.child_limits.child_processes and is_root:
        log.warning("PYOCO_CHILD_PROCESSES has no effect: flows run as root")
    if config.child_limits.child_memory_bytes and sys.platform != "linux":
        log.warning("PYOCO_CHILD_MEMORY_BYTES has no effect on this system")


def _has_uvloop() -> bool:
    return importlib.util.find_spec("uvloop") is not None


def main() -> None:
    """Run the command; exit with 0, 1 or 130."""
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        command.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        return 1 if done.exit_code else 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except click.ClickException as usage:
        _print_error(CliUsageError(usage.format_message(), _EXAMPLE))
        return 1
    except PyocoError as error:
        _print_error(error)
        return 1
    return 0


def _print_error(error: PyocoError) -> None:
    language = command_language(sys.argv[1:])
    click.echo(f"pyoco-worker: {error.entry.err_id}: {error.message(language)}", err=True)
    click.echo(f"  {error.detail}", err=True)
    click.echo(f"  {error.hint(language)}", err=True)
