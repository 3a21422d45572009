"""Draws rows on a terminal and restores its state afterwards."""

import os
import re
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Final, Self, TextIO

from pyoco_client.cli.display.safe_text import columns_of
from pyoco_client.cli.terminal_environment import TerminalEnvironment

_DEFAULT_SIZE: Final = (80, 24)

# Hides the cursor and turns line wrapping off. Without wrapping, a character that is wider on this
# terminal than computed only cuts its own row.
_ENTER: Final = "\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h"

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")

_TERMINATING: Final = (signal.SIGTERM, signal.SIGHUP)


def is_live(stream: TextIO, environment: TerminalEnvironment) -> bool:
    """Return whether `stream` is a terminal that can move its cursor."""
    return stream.isatty() and not environment.is_dumb


class Canvas:
    """Rows at the cursor's position that can be redrawn; a context manager.

    It hides the cursor on entry. On exit the terminal has its former state, and the last rows stay
    on it. Signals that terminate or stop the process restore the terminal too.
    """

    def __init__(self, stream: TextIO, environment: TerminalEnvironment) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._encoding = stream.encoding or "ascii"
        self._reflows = environment.reflows
        # Reentrant: the signal handler runs in the main thread, which may hold the lock.
        self._lock = threading.RLock()
        self._rows: Sequence[str] = ()
        self._columns = 0
        self._is_gone = False
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        self._stream.flush()
        if threading.current_thread() is threading.main_thread():
            for number in (*_TERMINATING, signal.SIGTSTP):
                # An ignored signal (nohup, a shell without job control) stays ignored.
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._handled.append(number)
                    signal.signal(number, self._on_signal)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for number in self._handled:
                signal.signal(number, signal.SIG_DFL)
        finally:
            self._write(_LEAVE)

    def size(self) -> tuple[int, int]:
        """Return the current number of columns and lines of the terminal."""
        try:
            found = os.get_terminal_size(self._descriptor)
        except OSError:
            return _DEFAULT_SIZE
        return (found.columns or _DEFAULT_SIZE[0], found.lines or _DEFAULT_SIZE[1])

    def draw(self, rows: Sequence[str], *, force: bool = False) -> None:
        """Replace the rows drawn before by `rows`; with `force` even if they are equal."""
        with self._lock:
            columns, lines = self.size()
            if not force and rows == self._rows and columns == self._columns:
                return
            up = min(self._rows_taken(columns), lines - 1)
            text = (f"\x1b[{up}A" if up else "") + "\r"
            text += "".join(f"{row}\x1b[K\r\n" for row in rows)
            self._write(text + "\x1b[J")
            self._rows, self._columns = list(rows), columns

    def _rows_taken(self, columns: int) -> int:
        if columns >= self._columns or not self._reflows:
            return len(self._rows)
        widths = (columns_of(_COLOUR.sub("", row)) for row in self._rows)
        return sum(max(1, -(-width // columns)) for width in widths)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        with self._lock:
            self._write(_LEAVE)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            # The process gets here only after a stop and a continue. The shell has written to the
            # terminal meanwhile, so the next draw starts below its output.
            signal.signal(number, self._on_signal)
            self._rows = ()
            self._write(_ENTER)

    def _write(self, text: str) -> None:
        # Not through Python's buffer: a signal handler must not reenter it.
        data = text.encode(self._encoding, "backslashreplace")
        while data and not self._is_gone:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError:
                # The window was closed, so nothing more is drawn.
                self._is_gone = True
