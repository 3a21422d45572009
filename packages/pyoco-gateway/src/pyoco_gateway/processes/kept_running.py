"""A command that is started again when it ends by itself."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from pyoco_gateway.processes.guarded import GuardedProcess
from pyoco_gateway.processes.restarts import Restarts
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import PyocoError
from pyoco_protocol.task_groups import plain_errors

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How to start a command, and what to make of its death."""

    name: str
    # Entered when the command is ready; raises `failure` where it does not get there.
    start: Callable[[], AbstractAsyncContextManager[GuardedProcess]]
    failure: Callable[[str], PyocoError]
    # A command that fails to start so many times in a row will not start at all.
    max_failed_starts: int = 5
    restarts: Restarts = field(default_factory=Restarts)


@asynccontextmanager
async def kept_running(upkeep: Upkeep) -> AsyncGenerator[anyio.Event]:
    """Keep a command running until the context is left; yield what is set once it is ready.

    A command that does not start, or cannot be started again, ends the context's body with its
    error.
    """
    ready = anyio.Event()
    # Shielded: when all is cancelled at once, this one goes on until its own context is left.
    # So what was started first is stopped last.
    kept = anyio.CancelScope(shield=True)
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep, upkeep, ready, kept)
            try:
                yield ready
            finally:
                kept.cancel()


async def _keep(upkeep: Upkeep, ready: anyio.Event, kept: anyio.CancelScope) -> None:
    with kept:
        await _start_again_and_again(upkeep, ready)


async def _start_again_and_again(upkeep: Upkeep, ready: anyio.Event) -> None:
    deaths = failed_starts = 0
    while True:
        started = time.monotonic()
        try:
            async with upkeep.start() as process:
                failed_starts = 0
                ready.set()
                _log.info("process ready", extra={"command": upkeep.name})
                code = await process.wait()
                error = upkeep.failure(f"{upkeep.name} ended with {code}")
        except PyocoError as failure:
            error = failure
            failed_starts += 1
            if not ready.is_set() or failed_starts >= upkeep.max_failed_starts:
                raise
        _log.error("process ended and is started again", extra=error_fields(error))
        deaths = upkeep.restarts.quick_deaths(deaths, lived_sec=time.monotonic() - started)
        await anyio.sleep(upkeep.restarts.wait_sec(deaths))
