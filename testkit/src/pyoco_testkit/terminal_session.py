"""Runs a command on a pseudo-terminal and reads its screen."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyoco_testkit.environment import clean_environment
from pyoco_testkit.eventually import eventually
from pyoco_testkit.screen import Screen

# Makes the terminal the controlling terminal, which Ctrl-C needs, and executes the command.
_RUN_ON_TERMINAL: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class TerminalSession:
    """A command on a pseudo-terminal; `screen` holds what the terminal shows.

    The command inherits the file descriptors in `open_files` under the same numbers. `before` is
    text on the screen before the command starts.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
        reflows: bool = True,
        open_files: Sequence[int] = (),
        before: str = "",
    ) -> None:
        self.screen = Screen(columns, lines, reflows=reflows)
        self.screen_error: BaseException | None = None
        self._command = [str(part) for part in command]
        self._env = {
            **clean_environment({"TERM": "xterm-256color", "LANG": "C.UTF-8"}),
            **(env or {}),
        }
        for name in ("NO_COLOR", "XTERM_VERSION", "COLUMNS", "LINES"):
            if name not in (env or {}):
                self._env.pop(name, None)
        self._open_files = open_files
        self._before = before
        self._lock = threading.Lock()

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        self._set_size()
        self.screen.feed(self._before.replace("\n", "\r\n").encode())
        self._slave: int | None = slave
        self._modes = self._modes_now()
        self._process = subprocess.Popen(  # noqa: ASYNC220  it returns at once
            [sys.executable, "-c", _RUN_ON_TERMINAL, *self._command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._env,
            start_new_session=True,
            pass_fds=self._open_files,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close_slave()
        self._reader.join()
        os.close(self._master)

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    @property
    def is_as_found(self) -> bool:
        """Whether cursor, wrapping, colours and line discipline are as before the command."""
        screen = self.screen
        return (screen.is_cursor_visible, screen.wraps, screen.attributes) == (
            True,
            True,
            "",
        ) and self._modes_now() == self._modes

    def type(self, keys: str) -> None:
        """Type keys; `\\x03` is Ctrl-C."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window; the kernel sends SIGWINCH to the command."""
        with self._lock:
            self.screen.resize(columns, lines)
            self._set_size()

    async def shows(self, text: str, timeout: float = 15.0) -> None:
        """Wait until the screen contains `text`; the error message holds the screen."""
        await eventually(self._shown, lambda shown: text in shown, timeout)
        if self.screen_error is not None:
            raise self.screen_error

    async def ended(self, timeout: float = 15.0) -> int:
        """Wait for the end of the command and of its output, and return its exit code."""
        code = await eventually(self._process.poll, lambda code: code is not None, timeout)
        # With no writer left, the reader ends after the last byte.
        self._close_slave()
        self._reader.join(timeout)
        if self.screen_error is not None:
            raise self.screen_error
        assert isinstance(code, int)
        return code

    def _modes_now(self) -> list[object]:
        return list(termios.tcgetattr(self._master))

    def _close_slave(self) -> None:
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    def _shown(self) -> str:
        with self._lock:
            return "\n".join(self.screen.rows)

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.lines, self.screen.columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                with self._lock:
                    self.screen.feed(data)
        except OSError:
            return  # The last writer has closed the terminal.
        except AssertionError as error:
            self.screen_error = error
