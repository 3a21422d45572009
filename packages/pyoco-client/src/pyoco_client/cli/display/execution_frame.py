"""The rows of the live view of an execution."""

from collections.abc import Sequence
from typing import Final

from pyoco_client.cli.display.cells import duration
from pyoco_client.cli.display.displayed_execution import DisplayedExecution, DisplayedNode
from pyoco_client.cli.display.frame_parts import Style, progress_row, selected, summary_row
from pyoco_client.cli.display.safe_text import clipped, columns_of, padded, safe_line

# If the screen is too small for all nodes, nodes in the first of these states are shown first.
_RANKS: Final = (
    *("FAILED", "RUNNING", "WAITING", "READY", "CANCELED", "IDLE", "SUCCEEDED", "SKIPPED"),
)
_STATE_COLUMNS: Final = 9
_TOOK_COLUMNS: Final = 6
_MAX_NAME_COLUMNS: Final = 40
_BAR_COLUMNS: Final = 10
# Events are shown only if the nodes leave so much room.
_MAX_EVENTS: Final = 3


def execution_frame(
    execution: DisplayedExecution,
    events: Sequence[str],
    *,
    now: float,
    tick: int,
    style: Style,
) -> list[str]:
    """Return the rows of the live view; they fit the size in `style`.

    The last of `events` are below the nodes.
    """
    # Terminals differ in what they do after the last column, so it stays empty.
    width = max(style.columns - 1, 1)
    # The last line is for the cursor.
    height = max(style.lines - 1, 1)
    rows = [_headline(execution, now=now, tick=tick, style=style, width=width)]
    # The id is wrapped and never shortened: after Ctrl-C the user needs it.
    room = max(width - 2, 1)
    name = execution.execution_id
    rows += [f"  {name[at : at + room]}" for at in range(0, len(name), room)]
    nodes = list(execution.nodes.values())
    if not nodes:
        return rows[:height]
    footer = [progress_row(sum(node.is_over for node in nodes), len(nodes), width)]
    if (room := height - len(rows) - len(footer)) < 1:
        return [*rows[: height - len(footer)], *footer][:height]
    shown, others = selected(nodes, room, _RANKS)
    longest = max((columns_of(node.node_id) for node in shown), default=0)
    names = min(longest, _MAX_NAME_COLUMNS)
    rows += [_node_row(node, names, now=now, tick=tick, style=style, width=width) for node in shown]
    if others:
        rows.append(summary_row(others, width, _RANKS))
    free = min(height - len(rows) - len(footer), _MAX_EVENTS)
    told = [clipped(f"  {line}", width) for line in events[-free:]] if free > 0 else []
    return [*rows, *footer, *told][:height]


def _headline(
    execution: DisplayedExecution, *, now: float, tick: int, style: Style, width: int
) -> str:
    facts = [execution.status]
    if execution.began_at is not None:
        facts.append(duration((execution.ended_at or now) - execution.began_at))
    if execution.phase:
        facts.append(execution.phase)
    symbol = style.symbol(execution.status, tick)
    tail = "".join(f"  {fact}" for fact in facts)
    graph = clipped(safe_line(execution.graph), max(width - 2 - columns_of(tail), 1))
    plain = f"{symbol} {graph}{tail}"
    if columns_of(plain) > width:
        return clipped(plain, width)
    painted = tail.replace(execution.status, style.painted(execution.status, execution.status), 1)
    return f"{style.painted(symbol, execution.status)} {graph}{painted}"


def _node_row(
    node: DisplayedNode, names: int, *, now: float, tick: int, style: Style, width: int
) -> str:
    took = ""
    if node.began_at is not None and node.state != "READY":
        took = duration((node.ended_at or now) - node.began_at)
    name = padded(node.node_id, names)
    begin = f"  s {name} {padded(node.state, _STATE_COLUMNS)} {took:>{_TOOK_COLUMNS}}"
    room = width - columns_of(begin) - 2
    facts = "  ".join(_facts(node, room))
    symbol = style.symbol(node.state, tick)
    if columns_of(begin) > width:
        # Too narrow for columns: the row is the symbol of the state and the name.
        return clipped(f"{symbol} {node.node_id}", width)
    state = style.painted(padded(node.state, _STATE_COLUMNS), node.state)
    row = f"  {style.painted(symbol, node.state)} {name} {state} {took:>{_TOOK_COLUMNS}}"
    return f"{row}  {clipped(facts, room)}" if facts and room > 0 else row.rstrip()


def _facts(node: DisplayedNode, room: int) -> list[str]:
    facts = [f"attempt {node.attempt}"] if node.attempt > 1 else []
    if node.state == "RUNNING" and node.progress is not None:
        done = round(min(max(node.progress, 0.0), 100.0) * _BAR_COLUMNS / 100)
        bar = "=" * done + " " * (_BAR_COLUMNS - done)
        with_bar = [*facts, f"[{bar}] {node.progress:.0f}%"]
        fits = columns_of("  ".join(with_bar)) <= room
        facts = with_bar if fits else [*facts, f"{node.progress:.0f}%"]
    if node.state == "WAITING":
        if node.wait_key:
            facts.append(f"key {safe_line(node.wait_key)}")
        if node.approvals is not None:
            facts.append(f"{node.approvals[0]} of {node.approvals[1]} approvals")
    if node.note:
        facts.append(safe_line(node.note))
    return facts
