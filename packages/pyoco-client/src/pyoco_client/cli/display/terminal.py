"""A terminal that is drawn upon, and left as it was found."""

import os
import re
import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Final, Self, TextIO

from pyoco_client.cli.display.safe_text import columns_of
from pyoco_client.cli.environment import TerminalEnvironment

_DEFAULT_SIZE: Final = (80, 24)

# Without wrapping, a character that this terminal draws wider than expected costs the end of its
# row and not the whole picture.
_ENTER: Final = "\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h"

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def is_live(stream: TextIO, environment: TerminalEnvironment) -> bool:
    """Whether `stream` is a terminal whose cursor can be moved."""
    return stream.isatty() and not environment.is_dumb


class Canvas:
    """Rows at the place of the cursor that can be drawn again and again.

    Entered, it hides the cursor; left, in whatever way, the terminal is as before, with the last
    rows on it. That holds for signals that end or stop the process, too.
    """

    def __init__(self, stream: TextIO, environment: TerminalEnvironment) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._encoding = stream.encoding or "ascii"
        self._reflows = environment.reflows
        # Signals come while the lock is held by the very thread that is to handle them.
        self._lock = threading.RLock()
        self._rows: Sequence[str] = ()
        self._columns = 0
        self._is_gone = False
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        self._stream.flush()
        if threading.current_thread() is threading.main_thread():
            for number in (*_ENDING, signal.SIGTSTP):
                # What is ignored (nohup, a shell without job control) stays so.
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._handled.append(number)
                    signal.signal(number, self._on_signal)
        self._write(_ENTER)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            for number in self._handled:
                signal.signal(number, signal.SIG_DFL)
        finally:
            self._write(_LEAVE)

    def size(self) -> tuple[int, int]:
        """Return columns and lines of the terminal as it is now."""
        try:
            found = os.get_terminal_size(self._descriptor)
        except OSError:
            return _DEFAULT_SIZE
        return (found.columns or _DEFAULT_SIZE[0], found.lines or _DEFAULT_SIZE[1])

    def draw(self, rows: Sequence[str], *, force: bool = False) -> None:
        """Put `rows` in the place of those drawn before, with `force` even if they are the same."""
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
            # Here only after a stop: the shell has written since, so begin anew below.
            signal.signal(number, self._on_signal)
            self._rows = ()
            self._write(_ENTER)

    def _write(self, text: str) -> None:
        # Past Python's buffer, which a signal handler must not enter a second time.
        data = text.encode(self._encoding, "backslashreplace")
        while data and not self._is_gone:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError:
                # The window was closed. What we were doing there is no longer of interest.
                self._is_gone = True
