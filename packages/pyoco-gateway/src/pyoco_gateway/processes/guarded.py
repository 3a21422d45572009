"""A command that runs beside us and cannot outlive us."""

import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

_log = logging.getLogger(__name__)

_GUARD: Final = Path(__file__).with_name("guard.py")
# The guard itself needs a moment after its grace to kill and to reap.
_GUARD_MARGIN_SEC: Final = 2.0


class GuardedProcess:
    """A command that was started; `wait` tells how it ended."""

    def __init__(self, name: str, process: Process, output: Path, written_before: int) -> None:
        self.name = name
        self.output = output
        self._process = process
        self._written_before = written_before

    async def wait(self) -> int:
        """Return its exit code once it has ended by itself."""
        return await self._process.wait()

    def written(self) -> str:
        """Return what it has written since it was started."""
        with self.output.open("rb") as output:
            output.seek(self._written_before)
            return output.read().decode(errors="replace")

    async def _stop(self, grace_sec: float) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        with anyio.CancelScope(shield=True):
            await self._process.stdin.aclose()
            with anyio.move_on_after(grace_sec + _GUARD_MARGIN_SEC):
                await self._process.wait()
                return
            _log.warning("process did not end in time and is killed", extra={"command": self.name})
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def guarded_process(
    name: str,
    command: Sequence[str],
    *,
    output: Path,
    grace_sec: float,
    env: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
) -> AsyncGenerator[GuardedProcess]:
    """Run `command` until the context is left, or until this process is gone.

    Its session is its own: Ctrl-C in a terminal goes to the whole foreground group, and would
    take the command down before we had stopped using it. What it writes is added to `output`.
    `keep_open` are descriptors that stay open until nothing of the command is left, such as
    that of a lock.
    """
    stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        written_before = os.lseek(stream, 0, os.SEEK_END)
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", str(_GUARD), str(grace_sec), *command],
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )
    finally:
        os.close(stream)
    guarded = GuardedProcess(name, process, output, written_before)
    try:
        yield guarded
    finally:
        await guarded._stop(grace_sec)
