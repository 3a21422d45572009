"""Has the process groups of children killed when this process is, and cannot do it itself."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

_GUARD: Final = Path(__file__).with_name("group_guard.py")
_STOP_SEC: Final = 2.0


class GuardedGroups:
    """The groups that must not outlive us."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    def add(self, group: int) -> None:
        """Have this group killed if we are gone before it is."""
        self._pipe.write(b"+%d\n" % group)

    def discard(self, group: int) -> None:
        """Forget a group that is gone; its number may be another's soon."""
        self._pipe.write(b"-%d\n" % group)


@asynccontextmanager
async def guarded_groups() -> AsyncIterator[GuardedGroups]:
    """Yield a guard that runs beside us, in a session of its own."""
    guard = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(_GUARD)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None  # noqa: S101 - it was started with a pipe
    try:
        yield GuardedGroups(guard.stdin)
    finally:
        with anyio.CancelScope(shield=True):
            guard.stdin.close()
            with anyio.move_on_after(_STOP_SEC):
                await guard.wait()
            if guard.returncode is None:
                guard.kill()
                await guard.wait()
