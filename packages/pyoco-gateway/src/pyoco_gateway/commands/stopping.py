"""How a command that runs for long is stopped."""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from pyoco_protocol.task_groups import plain_errors

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_until_signalled(serve: Callable[[], Awaitable[None]]) -> int:
    """Run `serve` until a signal cancels it; return the exit code of a clean stop.

    What is open stops in order as its contexts are left. A second signal ends the process on
    the spot: what it started goes down with it.
    """
    codes: list[int] = []
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            # Not the scope of the listener, which must hear the second signal while all the
            # rest is being stopped.
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
