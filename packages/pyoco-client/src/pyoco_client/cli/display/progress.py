"""What is shown on a terminal while something is sent or fetched."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from pyoco_client.cli.display.safe_text import clipped, columns_of, encodable, safe_line
from pyoco_client.cli.display.terminal import Canvas, is_live
from pyoco_client.cli.environment import TerminalEnvironment, terminal_environment

_TICK_SEC: Final = 0.1
# What is done sooner would only flicker.
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
    """What to call with each number of bytes that went by; a bar shows them while this is open.

    Without `total` the bar only moves. It is drawn where `stream` (stderr if not given) is a
    terminal, after a moment, and is gone in the end. Elsewhere nothing is written.
    """
    surroundings = environment or terminal_environment()
    target = sys.stderr if stream is None else stream
    if target is None or not is_live(target, surroundings):
        yield lambda _: None
        return
    done = 0
    over = threading.Event()

    def advance(size: int) -> None:
        nonlocal done
        done += size

    def animate(canvas: Canvas) -> None:
        began = time.monotonic()
        while not over.wait(_TICK_SEC):
            went_by = time.monotonic() - began
            if went_by >= _QUIET_SEC:
                tick = int(went_by / _TICK_SEC)
                shown = encodable(safe_line(label), target.encoding)
                canvas.draw([bar(shown, done, total, tick=tick, width=canvas.size()[0] - 1)])

    with Canvas(target, surroundings) as canvas:
        animation = threading.Thread(target=animate, args=(canvas,), name="progress", daemon=True)
        animation.start()
        try:
            yield advance
        finally:
            over.set()
            animation.join()
            canvas.draw([])


def bar(label: str, done: int, total: int | None, *, tick: int, width: int) -> str:
    """Return the row of a bar, not wider than `width`: how much is done, or that it goes on."""
    amount = f" {min(done / total, 1.0):4.0%} {size_of(total)}" if total else ""
    room = min(_MAX_BAR_COLUMNS, width - columns_of(amount) - 2 - min(columns_of(label) + 1, 12))
    if room < len(_SLIDER) + 1:
        return clipped(f"{label}{amount}", max(width, 0))
    if total:
        filled = int(room * min(done / total, 1.0))
        inside = "=" * filled + " " * (room - filled)
    else:
        # There and back again.
        way = room - len(_SLIDER)
        at = way - abs(tick % (2 * way) - way)
        inside = " " * at + _SLIDER + " " * (way - at)
    name = clipped(label, width - columns_of(amount) - room - 3)
    return f"{name} [{inside}]{amount}"


def size_of(size: float) -> str:
    """Return a number of bytes as people say it."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
