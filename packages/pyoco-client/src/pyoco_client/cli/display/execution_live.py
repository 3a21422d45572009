"""Shows an execution until it ends: a live view on a terminal, a line for each event elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from pyoco_client.cli.display.cells import moment, seconds_of
from pyoco_client.cli.display.displayed_execution import DisplayedExecution
from pyoco_client.cli.display.event_text import event_detail
from pyoco_client.cli.display.execution_frame import execution_frame
from pyoco_client.cli.display.live_view import Frame, LiveView, print_line
from pyoco_client.cli.display.outages import Outages
from pyoco_client.cli.display.safe_text import encodable, safe_line
from pyoco_client.cli.display.terminal import is_live
from pyoco_client.cli.terminal_environment import TerminalEnvironment, terminal_environment

if TYPE_CHECKING:
    from pyoco_client.execution_models import ExecutionChange, ExecutionEvent

_EVENTS: Final = 10


def follow_execution(
    changes: Iterable["ExecutionChange"],
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.time,
    environment: TerminalEnvironment | None = None,
    outages: Outages | None = None,
) -> str | None:
    """Show each change on `stream`; return the last known status.

    A terminal shows a live view, with the current one of `outages`; after Ctrl-C it says how to
    continue. Other streams, and terminals with TERM=dumb, get a line for each event.
    """
    terminal = environment or terminal_environment()
    if is_live(stream, terminal):
        return _follow_live(changes, stream, clock, terminal, outages or Outages())
    shown: DisplayedExecution | None = None
    for change in changes:
        shown = _after(shown, change)
        if change.event is not None:
            print_line(stream, event_line(change.event))
        elif shown is not None:
            print_line(stream, f"execution {shown.execution_id} {shown.status} {shown.graph}")
    return None if shown is None else shown.status


def event_line(event: "ExecutionEvent") -> str:
    """Return an event in one line: its time, number, type, node and payload."""
    at = seconds_of(event.occurred_at)
    words = [
        "" if at is None else moment(at),
        str(event.seq),
        event.type,
        event.node_id or "",
        event_detail(event.payload),
    ]
    return "  ".join(safe_line(word) for word in words if word)


def _after(
    shown: DisplayedExecution | None, change: "ExecutionChange"
) -> DisplayedExecution | None:
    if change.execution is not None:
        return DisplayedExecution.of(change.execution)
    if change.event is not None and shown is not None:
        return shown.after(change.event)
    if change.status is not None and shown is not None:
        return replace(shown, status=change.status.value, phase="")
    return shown


def _follow_live(
    changes: Iterable["ExecutionChange"],
    stream: TextIO,
    clock: Callable[[], float],
    environment: TerminalEnvironment,
    outages: Outages,
) -> str | None:
    shown: DisplayedExecution | None = None
    events: deque[str] = deque(maxlen=_EVENTS)
    view = LiveView(stream, clock=clock, environment=environment, outages=outages)
    try:
        with view:
            for change in changes:
                shown = _after(shown, change)
                if change.event is not None:
                    events.append(encodable(_short_line(change.event), view.encoding))
                if shown is not None:
                    view.show(_frame_of(shown.escaped_for(view.encoding), tuple(events)))
    except KeyboardInterrupt:
        if shown is not None and not shown.is_over:
            print_line(stream, "Stopped watching; the execution continues. Watch it again:")
            print_line(stream, f"  pyoco-client execution watch {shown.execution_id}")
        raise
    return None if shown is None else shown.status


def _short_line(event: "ExecutionEvent") -> str:
    at = seconds_of(event.occurred_at)
    when = "" if at is None else moment(at)[11:19]
    words = [when, event.type, event.node_id or "", event_detail(event.payload)]
    return " ".join(safe_line(word) for word in words if word)


def _frame_of(execution: DisplayedExecution, events: tuple[str, ...]) -> Frame:
    # A clock that is behind that of the server must not show a time before the last change.
    return lambda clock, tick, style: execution_frame(
        execution, events, now=max(clock, execution.changed_at), tick=tick, style=style
    )
