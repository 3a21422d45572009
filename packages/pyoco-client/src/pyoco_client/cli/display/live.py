"""Follow a run: a live view on a terminal, a line for each change everywhere else."""

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self, TextIO, TypeVar

from pyoco_client.cli.display.run_history import RunHistory
from pyoco_client.cli.display.run_picture import RunPicture, Style, changes, ending, frame
from pyoco_client.cli.display.safe_text import encodable
from pyoco_client.cli.display.terminal import Canvas, is_live
from pyoco_client.cli.environment import TerminalEnvironment, terminal_environment

Snapshot = TypeVar("Snapshot")

_TICK_SEC: Final = 0.1


def follow(
    snapshots: Iterable[Snapshot],
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.time,
    environment: TerminalEnvironment | None = None,
) -> Snapshot | None:
    """Return the last of `snapshots` (None where there is none) after showing each on `stream`.

    They are JSON objects of the gateway or results of the SDK, with task records if durations are
    to be seen. On a terminal there is a live view, elsewhere and where TERM is dumb a line for
    each change; both end with the result or the error. What iterating raises is raised here, with
    the terminal as it was: KeyboardInterrupt too.
    """
    surroundings = environment or terminal_environment()
    if is_live(stream, surroundings):
        return _follow_live(snapshots, stream, clock, surroundings)
    last: Snapshot | None = None
    history = RunHistory()
    picture: RunPicture | None = None
    for snapshot in snapshots:
        last, before = snapshot, picture
        picture = history.with_times(RunPicture.of(snapshot))
        for line in changes(before, picture):
            print_line(stream, line)
    if picture is not None:
        for line in ending(picture):
            print_line(stream, line)
    return last


def print_line(stream: TextIO, line: str) -> None:
    """Write a line at once; what the stream cannot show is escaped."""
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
                view.show(history.with_times(RunPicture.of(snapshot)))
    except KeyboardInterrupt:
        if view.picture is not None and not view.picture.is_over:
            print_line(stream, "No longer watched; the run goes on.")
        raise
    if view.picture is not None:
        for line in ending(view.picture):
            print_line(stream, line)
    return last


class LiveView:
    """The picture of a run on a terminal; it moves also while nothing is told."""

    def __init__(
        self, stream: TextIO, *, clock: Callable[[], float], environment: TerminalEnvironment
    ) -> None:
        self.picture: RunPicture | None = None
        self._canvas = Canvas(stream, environment)
        self._encoding = stream.encoding or "ascii"
        self._colour = not environment.no_color
        self._clock = clock
        self._seen: tuple[RunPicture, float] | None = None
        self._tick = 0
        self._over = threading.Event()
        self._animation = threading.Thread(target=self._animate, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        self._canvas.__enter__()
        self._animation.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._over.set()
            self._animation.join()
            self._draw(force=True)
        finally:
            self._canvas.__exit__(exc_type, exc, traceback)

    def show(self, picture: RunPicture) -> None:
        """Draw a newer picture of the run."""
        spelled = picture.spelled(self._encoding)
        # How far this clock is from the server's, at the time of the telling.
        ahead = picture.now(self._clock()) - self._clock()
        self.picture = picture
        self._seen = (spelled, ahead)
        self._draw()

    def _animate(self) -> None:
        while not self._over.wait(_TICK_SEC):
            self._tick += 1
            self._draw()

    def _draw(self, *, force: bool = False) -> None:
        if self._seen is None:
            return
        picture, ahead = self._seen
        columns, lines = self._canvas.size()
        style = Style(columns, lines, self._colour, _is_unicode(self._encoding))
        rows = frame(picture, now=self._clock() + ahead, tick=self._tick, style=style)
        self._canvas.draw(rows, force=force)


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().replace("-", "").startswith("utf")
