"""Shows a run until it ends: a live view on a terminal, a line for each change elsewhere."""

import time
from collections.abc import Callable, Iterable
from typing import TextIO, TypeVar

from pyoco_client.cli.display.displayed_run import DisplayedRun
from pyoco_client.cli.display.live_frame import frame
from pyoco_client.cli.display.live_view import Frame, LiveView, print_line
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.run_history import RunHistory
from pyoco_client.cli.display.run_lines import change_lines, result_lines
from pyoco_client.cli.display.terminal import is_live
from pyoco_client.cli.terminal_environment import TerminalEnvironment, terminal_environment

Snapshot = TypeVar("Snapshot")


def follow(
    snapshots: Iterable[Snapshot],
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.time,
    environment: TerminalEnvironment | None = None,
    outages: Outages | None = None,
) -> Snapshot | None:
    """Show each snapshot on `stream`; return the last one, or None if there is none.

    Snapshots are JSON objects of the gateway or models of the SDK; durations need task records. A
    terminal shows a live view. Other streams, and terminals with TERM=dumb, get a line for each
    change. Both end with the result or the error. A live view shows the current one of `outages`.
    An exception of the iterable, KeyboardInterrupt included, leaves this function after the
    terminal is restored.
    """
    terminal = environment or terminal_environment()
    if is_live(stream, terminal):
        return _follow_live(snapshots, stream, clock, terminal, outages or Outages())
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


def _follow_live(
    snapshots: Iterable[Snapshot],
    stream: TextIO,
    clock: Callable[[], float],
    environment: TerminalEnvironment,
    outages: Outages,
) -> Snapshot | None:
    last: Snapshot | None = None
    run: DisplayedRun | None = None
    history = RunHistory()
    view = LiveView(stream, clock=clock, environment=environment, outages=outages)
    try:
        with view:
            for snapshot in snapshots:
                last, run = snapshot, history.with_times(DisplayedRun.of(snapshot))
                view.show(_frame_of(run, view.encoding, clock()))
    except KeyboardInterrupt:
        if run is not None and not run.is_over:
            print_line(stream, "Stopped watching; the run continues.")
        raise
    if run is not None:
        for line in result_lines(run):
            print_line(stream, line)
    return last


def _frame_of(run: DisplayedRun, encoding: str, now: float) -> Frame:
    shown = run.escaped_for(encoding)
    # The server's clock minus this machine's.
    offset = run.now(now) - now
    return lambda clock, tick, style: frame(shown, now=clock + offset, tick=tick, style=style)
