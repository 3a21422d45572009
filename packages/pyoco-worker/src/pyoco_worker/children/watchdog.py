"""Starts the watchdog process, which kills the children's process groups if the worker dies."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

_SCRIPT: Final = Path(__file__).with_name("watchdog_process.py")
_STOP_SEC: Final = 2.0


class Watchdog:
    """Tells the watchdog process which process groups to kill."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    def add(self, group: int) -> None:
        """Kill this process group if the worker dies first."""
        self._pipe.write(b"+%d\n" % group)

    def discard(self, group: int) -> None:
        """Forget a process group that has ended, because the kernel may reuse its number."""
        self._pipe.write(b"-%d\n" % group)


@asynccontextmanager
async def running_watchdog(environment: Mapping[str, str]) -> AsyncIterator[Watchdog]:
    """Yield a watchdog in its own session, with the environment that flows get.

    Flows of the same user can read the environment of its process. It is not empty, because
    Python may need variables such as LD_LIBRARY_PATH to start.
    """
    # A cancelled start would leave a process that nothing ends.
    with anyio.CancelScope(shield=True):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_SCRIPT)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    try:
        yield Watchdog(process.stdin)
    finally:
        with anyio.CancelScope(shield=True):
            process.stdin.close()
            with anyio.move_on_after(_STOP_SEC):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
