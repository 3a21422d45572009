"""A progress bar on a terminal during a transfer."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from pyoco_client.cli.display.safe_text import clipped, columns_of, encodable, safe_line
from pyoco_client.cli.display.terminal import Canvas, is_live
from pyoco_client.cli.terminal_environment import TerminalEnvironment, terminal_environment

_TICK_SEC: Final = 0.1
# No bar for shorter transfers: it would only flicker.
_QUIET_SEC: Final = 0.3
_MAX_BAR_COLUMNS: Final = 30
_SLIDER: Final = "==="


@contextmanager
def progress(
    label: str,
    total: int | None = None,
    stream: TextIO | None = None,
    *,
    environment: TerminalEnvironment | None = None,
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield a function that takes the size of each transferred piece.

    Without `total` the bar only shows activity. It appears on `stream` (default stderr) after a
    short time, if that is a terminal, and is erased at the end. Other streams get no output.
    """
    terminal = environment or terminal_environment()
    target = sys.stderr if stream is None else stream
    if target is None or not is_live(target, terminal):
        yield lambda _: None
        return
    done = 0
    stopped = threading.Event()

    def advance(size: int) -> None:
        nonlocal done
        done += size

    def animate(canvas: Canvas) -> None:
        began = time.monotonic()
        while not stopped.wait(_TICK_SEC):
            elapsed = time.monotonic() - began
            if elapsed >= _QUIET_SEC:
                tick = int(elapsed / _TICK_SEC)
                shown = encodable(safe_line(label), target.encoding)
                canvas.draw([bar(shown, done, total, tick=tick, width=canvas.size()[0] - 1)])

    with Canvas(target, terminal) as canvas:
        animation = threading.Thread(target=animate, args=(canvas,), name="progress", daemon=True)
        animation.start()
        try:
            yield advance
        finally:
            stopped.set()
            animation.join()
            canvas.draw([])


def bar(label: str, done: int, total: int | None, *, tick: int, width: int) -> str:
    """Return the row of a progress bar, at most `width` columns wide."""
    amount = f" {min(done / total, 1.0):4.0%} {size_of(total)}" if total else ""
    room = min(_MAX_BAR_COLUMNS, width - columns_of(amount) - 2 - min(columns_of(label) + 1, 12))
    if room < len(_SLIDER) + 1:
        return clipped(f"{label}{amount}", max(width, 0))
    if total:
        filled = int(room * min(done / total, 1.0))
        inside = "=" * filled + " " * (room - filled)
    else:
        # The slider moves to the right end and back.
        span = room - len(_SLIDER)
        at = span - abs(tick % (2 * span) - span)
        inside = " " * at + _SLIDER + " " * (span - at)
    name = clipped(label, width - columns_of(amount) - room - 3)
    return f"{name} [{inside}]{amount}"


def size_of(size: float) -> str:
    """Return a number of bytes with its unit: `512 B`, `1.5 KiB`, `2.0 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
