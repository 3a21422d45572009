"""A child process that cannot outlive this process."""

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

_WATCHDOG: Final = Path(__file__).with_name("watchdog.py")
# Time for the watchdog to kill and reap after the grace period.
_WATCHDOG_MARGIN_SEC: Final = 2.0
_SHOWN_LINES: Final = 6


class ChildProcess:
    """A running command and its output file."""

    def __init__(self, name: str, process: Process, output: Path, written_before: int) -> None:
        self.name = name
        self.output = output
        self._process = process
        self._written_before = written_before

    async def wait(self) -> int:
        """Return its exit code once it has ended."""
        return await self._process.wait()

    def written(self) -> str:
        """Return the output since its start."""
        with self.output.open("rb") as output:
            output.seek(self._written_before)
            return output.read().decode(errors="replace")

    def last_lines(self) -> str:
        """Return the last lines of the output, on one line."""
        return " / ".join(self.written().strip().splitlines()[-_SHOWN_LINES:])

    async def _stop(self, grace_sec: float) -> None:
        assert self._process.stdin is not None  # noqa: S101 - started with a pipe
        with anyio.CancelScope(shield=True):
            await self._process.stdin.aclose()
            with anyio.move_on_after(grace_sec + _WATCHDOG_MARGIN_SEC):
                await self._process.wait()
                return
            _log.warning("process did not end in time and is killed", extra={"command": self.name})
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def child_process(
    name: str,
    command: Sequence[str],
    *,
    output: Path,
    grace_sec: float,
    env: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
) -> AsyncGenerator[ChildProcess]:
    """Run `command` until the context exits, or until this process has gone.

    The command gets its own session: Ctrl-C in a terminal goes to the whole foreground group, and
    would stop the command while it is still in use. Its output is appended to `output`.
    `keep_open` are descriptors that stay open until all processes of the command have ended, such
    as that of a lock.
    """
    stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        written_before = os.lseek(stream, 0, os.SEEK_END)
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", str(_WATCHDOG), str(grace_sec), *command],
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )
    finally:
        os.close(stream)
    child = ChildProcess(name, process, output, written_before)
    try:
        yield child
    finally:
        await child._stop(grace_sec)
