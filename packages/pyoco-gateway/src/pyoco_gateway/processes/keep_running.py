"""Restarts a child process when it exits."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from pyoco_gateway.processes.child_process import ChildProcess
from pyoco_gateway.processes.restart_delays import RestartDelays
from pyoco_protocol.logging.setup import error_fields
from pyoco_protocol.problems import PyocoError
from pyoco_protocol.task_groups import plain_errors

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How to start a command, and when to give up restarting it."""

    name: str
    # The body starts when the command is ready; raises `failure` if it does not become ready.
    start: Callable[[], AbstractAsyncContextManager[ChildProcess]]
    failure: Callable[[str], PyocoError]
    max_failed_starts: int = 5
    delays: RestartDelays = field(default_factory=RestartDelays)


@asynccontextmanager
async def keep_running(policy: RestartPolicy) -> AsyncGenerator[anyio.Event]:
    """Keep a command running until the context exits; yield an event, set when it is ready.

    A command that does not start, or cannot be restarted, raises its error in the context's body.
    """
    ready = anyio.Event()
    # Shielded: a cancellation from outside stops the command only when its own context exits, so
    # the command that was started first stops last.
    shield = anyio.CancelScope(shield=True)
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_run_shielded, policy, ready, shield)
            try:
                yield ready
            finally:
                shield.cancel()


async def _run_shielded(
    policy: RestartPolicy, ready: anyio.Event, shield: anyio.CancelScope
) -> None:
    with shield:
        await _run_and_restart(policy, ready)


async def _run_and_restart(policy: RestartPolicy, ready: anyio.Event) -> None:
    quick_exits = failed_starts = 0
    while True:
        started = time.monotonic()
        try:
            async with policy.start() as process:
                failed_starts = 0
                ready.set()
                _log.info("process ready", extra={"command": policy.name})
                code = await process.wait()
                error = policy.failure(f"{policy.name} exited with {code}")
        except PyocoError as failure:
            error = failure
            failed_starts += 1
            if not ready.is_set() or failed_starts >= policy.max_failed_starts:
                raise
        _log.error("process exited and is restarted", extra=error_fields(error))
        quick_exits = policy.delays.quick_exits(quick_exits, ran_sec=time.monotonic() - started)
        await anyio.sleep(policy.delays.wait_sec(quick_exits))
