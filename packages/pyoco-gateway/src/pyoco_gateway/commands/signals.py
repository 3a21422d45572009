"""Stops a long-running command on SIGINT, SIGTERM or SIGHUP."""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from pyoco_gateway.commands.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from pyoco_protocol.task_groups import plain_errors

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_until_signalled(serve: Callable[[], Awaitable[None]]) -> int:
    """Run `serve` until a signal cancels it; return the exit code of a clean stop.

    The parts of the server stop in order, as their contexts exit. A second signal ends the
    process at once; its child processes end with it.
    """
    codes: list[int] = []
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            # A scope without the signal listener, which waits for a second signal meanwhile.
            with anyio.CancelScope() as serving:
                await tasks.start(_cancel_on_signal, serving, codes)
                await serve()
            tasks.cancel_scope.cancel()
    return codes[0] if codes else EXIT_OK


async def _cancel_on_signal(
    serving: anyio.CancelScope,
    codes: list[int],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        async for signum in signals:
            if codes:
                os._exit(codes[0])
            codes.append(EXIT_INTERRUPTED if signum == signal.SIGINT else EXIT_OK)
            serving.cancel()
