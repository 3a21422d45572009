"""Shows a run until it ends: a live view on a terminal, a line for each change elsewhere."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Self, TextIO, TypeVar

from pyoco_client.cli.display.displayed_run import DisplayedRun
from pyoco_client.cli.display.live_frame import Style, frame
from pyoco_client.cli.display.run_history import RunHistory
from pyoco_client.cli.display.run_lines import change_lines, result_lines
from pyoco_client.cli.display.safe_text import encodable
from pyoco_client.cli.display.terminal import Canvas, is_live
from pyoco_client.cli.terminal_environment import TerminalEnvironment, terminal_environment

Snapshot = TypeVar("Snapshot")

_TICK_SEC: Final = 0.1


def follow(
    snapshots: Iterable[Snapshot],
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.time,
    environment: TerminalEnvironment | None = None,
) -> Snapshot | None:
    """Show each snapshot on `stream`; return the last one, or None if there is none.

    Snapshots are JSON objects of the gateway or models of the SDK; durations need task records. A
    terminal shows a live view. Other streams, and terminals with TERM=dumb, get a line for each
    change. Both end with the result or the error. An exception of the iterable, KeyboardInterrupt
    included, leaves this function after the terminal is restored.
    """
    terminal = environment or terminal_environment()
    if is_live(stream, terminal):
        return _follow_live(snapshots, stream, clock, terminal)
    last: Snapshot | None = None
    history = RunHistory()
    run: DisplayedRun | None = None
    for snapshot in snapshots:
        last, before = snapshot, run
        run = history.with_times(DisplayedRun.of(snapshot))
        for line in change_lines(before, run):
            print_line(stream, line)
    if run is not None:
        for line in result_lines(run):
            print_line(stream, line)
    return last


def print_line(stream: TextIO, line: str) -> None:
    """Write a line and flush it; escape characters that the stream's encoding does not have."""
    stream.write(encodable(line, stream.encoding) + "\n")
    stream.flush()


def _follow_live(
    snapshots: Iterable[Snapshot],
    stream: TextIO,
    clock: Callable[[], float],
    environment: TerminalEnvironment,
) -> Snapshot | None:
    last: Snapshot | None = None
    history = RunHistory()
    view = LiveView(stream, clock=clock, environment=environment)
    try:
        with view:
            for snapshot in snapshots:
                last = snapshot
                view.show(history.with_times(DisplayedRun.of(snapshot)))
    except KeyboardInterrupt:
        if view.run is not None and not view.run.is_over:
            print_line(stream, "Stopped watching; the run continues.")
        raise
    if view.run is not None:
        for line in result_lines(view.run):
            print_line(stream, line)
    return last


class LiveView:
    """The live view of a run on a terminal; a thread redraws it between snapshots."""

    def __init__(
        self, stream: TextIO, *, clock: Callable[[], float], environment: TerminalEnvironment
    ) -> None:
        self.run: DisplayedRun | None = None
        self._canvas = Canvas(stream, environment)
        self._encoding = stream.encoding or "ascii"
        self._colour = not environment.no_color
        self._clock = clock
        # The run with escaped names, and the server's clock minus this machine's, in seconds.
        self._shown: tuple[DisplayedRun, float] | None = None
        self._tick = 0
        self._stopped = threading.Event()
        self._animation = threading.Thread(target=self._animate, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        self._canvas.__enter__()
        self._animation.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._stopped.set()
            self._animation.join()
            self._draw(force=True)
        finally:
            self._canvas.__exit__(*exc_info)

    def show(self, run: DisplayedRun) -> None:
        """Draw a newer snapshot of the run."""
        now = self._clock()
        self.run = run
        self._shown = (run.escaped_for(self._encoding), run.now(now) - now)
        self._draw()

    def _animate(self) -> None:
        while not self._stopped.wait(_TICK_SEC):
            self._tick += 1
            self._draw()

    def _draw(self, *, force: bool = False) -> None:
        if self._shown is None:
            return
        run, clock_offset = self._shown
        columns, lines = self._canvas.size()
        style = Style(columns, lines, self._colour, _is_unicode(self._encoding))
        rows = frame(run, now=self._clock() + clock_offset, tick=self._tick, style=style)
        self._canvas.draw(rows, force=force)


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().replace("-", "").startswith("utf")
