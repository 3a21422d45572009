"""A view on a terminal that is drawn again and again."""

import threading
from collections.abc import Callable
from typing import Final, Self, TextIO

from pyoco_client.cli.display.frame_parts import Style
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.safe_text import clipped, encodable, safe_line
from pyoco_client.cli.display.terminal import Canvas
from pyoco_client.cli.terminal_environment import TerminalEnvironment

_TICK_SEC: Final = 0.1

# Returns the rows for the time of this machine, the number of the drawing, and the terminal.
Frame = Callable[[float, int, Style], list[str]]


class LiveView:
    """Rows on a terminal that a thread draws again and again."""

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float],
        environment: TerminalEnvironment,
        outages: Outages,
    ) -> None:
        self._canvas = Canvas(stream, environment)
        self.encoding = stream.encoding or "ascii"
        self._colour = not environment.no_color
        self._clock = clock
        self._outages = outages
        self._frame: Frame | None = None
        self._tick = 0
        self._stopped = threading.Event()
        self._animation = threading.Thread(target=self._animate, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        self._canvas.__enter__()
        self._outages.has_view = True
        self._animation.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._stopped.set()
            self._animation.join()
            self._draw(force=True)
        finally:
            self._outages.has_view = False
            self._canvas.__exit__(*exc_info)

    def show(self, frame: Frame) -> None:
        """Draw the rows of another frame from now on."""
        self._frame = frame
        self._draw()

    def _animate(self) -> None:
        while not self._stopped.wait(_TICK_SEC):
            self._tick += 1
            self._draw()

    def _draw(self, *, force: bool = False) -> None:
        if self._frame is None:
            return
        columns, lines = self._canvas.size()
        now = self._clock()
        outage = self._outages.row(now)
        # The row of an outage takes the place of another one.
        room = lines if outage is None else max(lines - 1, 1)
        style = Style(columns, room, self._colour, _is_unicode(self.encoding))
        rows = self._frame(now, self._tick, style)
        if outage is not None:
            told = clipped(encodable(safe_line(outage), self.encoding), max(columns - 1, 1))
            rows = [*rows[: max(lines - 2, 0)], style.painted(told, "FAILED")]
        self._canvas.draw(rows, force=force)


def print_line(stream: TextIO, line: str) -> None:
    """Write a line and flush it; escape characters that the stream's encoding does not have."""
    stream.write(encodable(line, stream.encoding) + "\n")
    stream.flush()


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().replace("-", "").startswith("utf")
