import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from execution_answers import AT, EXECUTION_ID, event, view
from pyoco_client.cli.display.execution_live import follow_execution
from pyoco_client.cli.terminal_environment import TerminalEnvironment
from pyoco_client.execution_models import ExecutionChange, execution_change
from pyoco_testkit.terminal_session import TerminalSession

# Shows the changes from a pipe, so that the test decides when each one arrives. The clock stands
# still, so that the whole screen can be compared.
PROGRAM = """
import json, os, sys
from pyoco_client.cli.display.execution_live import follow_execution
from pyoco_client.execution_models import execution_change
def changes():
    for line in os.fdopen(int(sys.argv[1])):
        kind, data = json.loads(line)
        yield execution_change(kind, json.dumps(data))
try:
    follow_execution(changes(), sys.stdout, clock=lambda: 0.0)
except KeyboardInterrupt:
    sys.exit(130)
"""

Send = Callable[[str, dict[str, Any]], None]


@asynccontextmanager
async def viewer(**options: Any) -> AsyncIterator[tuple[TerminalSession, Send]]:
    """Yield a terminal with the live view, and a function that sends a change to it."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(read_end)]
    async with TerminalSession(command, open_files=[read_end], **options) as session:
        os.close(read_end)
        try:
            yield (
                session,
                lambda kind, data: (
                    os.write(write_end, json.dumps([kind, data]).encode() + b"\n"),
                    None,
                )[1],
            )
        finally:
            os.close(write_end)


def still(rows: list[str]) -> list[str]:
    rows = [re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*", row) for row in rows]
    return [re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", row) for row in rows]


async def test_an_execution_is_shown_from_its_snapshot_to_its_end() -> None:
    async with viewer(before="$ watch\n") as (session, send):
        send("snapshot", view(seq=7))
        await session.shows("0/2")
        assert still(session.screen.rows) == [
            "$ watch",
            "* order-intake v3  ACTIVE  0.0s",
            f"  {EXECUTION_ID}",
            "  * fetch RUNNING",
            "  - ship  IDLE",
            "  [                                        ] 0/2",
        ]
        send("event", event(8, "NODE_SUCCEEDED", nodeId="fetch", attempt=1))
        send("event", event(9, "NODE_READY", nodeId="ship"))
        send("event", event(10, "EXECUTION_COMPLETED", result={}))
        send("end", {"status": "COMPLETED", "seq": 10})
        await session.shows("EXECUTION_COMPLETED")
        assert still(session.screen.rows)[1:] == [
            "✓ order-intake v3  COMPLETED  0.0s",
            f"  {EXECUTION_ID}",
            "  ✓ fetch SUCCEEDED",
            "  > ship  READY",
            "  [====================                    ] 1/2",
            "  hh:mm:ss NODE_SUCCEEDED fetch attempt=1",
            "  hh:mm:ss NODE_READY ship",
            "  hh:mm:ss EXECUTION_COMPLETED",
        ]
        assert not session.screen.is_cursor_visible


async def test_an_end_without_its_event_ends_the_phase() -> None:
    async with viewer() as (session, send):
        send("snapshot", view(seq=7, cancelRequestedAt=AT))
        await session.shows("canceling")
        send("end", {"status": "CANCELED", "seq": 8})
        await session.shows("CANCELED")
        assert still(session.screen.rows)[0] == "! order-intake v3  CANCELED  0.0s"


async def test_ctrl_c_restores_the_terminal_and_says_how_to_continue() -> None:
    async with viewer(columns=120) as (session, send):
        send("snapshot", view(seq=7))
        await session.shows("0/2")
        session.type("\x03")
        assert await session.ended() == 130
        assert session.screen.rows[-2:] == [
            "Stopped watching; the execution continues. Watch it again:",
            f"  pyoco-client execution watch {EXECUTION_ID}",
        ]
        assert session.is_as_found


def change(kind: str, data: dict[str, Any]) -> ExecutionChange:
    found = execution_change(kind, json.dumps(data))
    assert found is not None
    return found


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_other_streams_get_a_line_for_each_event(encoding: str) -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding)
    error = {"code": "A\x1b[31m", "message": "空"}
    failed = event(8, "NODE_FAILED", nodeId="fetch\x9b\n", error=error)
    changes = [
        change("snapshot", view(seq=7)),
        change("event", failed),
        change("event", {**event(9, "EXECUTION_FAILED", reason="NODE_FAILED"), "occurredAt": AT}),
        change("end", {"status": "FAILED", "seq": 9}),
    ]
    terminal = TerminalEnvironment(term="dumb", no_color=False, reflows=True)
    assert follow_execution(changes, stream, environment=terminal) == "FAILED"
    stream.flush()
    lines = buffer.getvalue().decode(encoding).splitlines()
    message = "空" if encoding == "utf-8" else "\\u7a7a"
    assert lines[0] == f"execution {EXECUTION_ID} ACTIVE order-intake v3"
    node_id = "fetch\\u009b\\u000a"
    assert lines[1].endswith(f"  8  NODE_FAILED  {node_id}  error=A\\u001b[31m: {message}")
    assert lines[2].endswith("  9  EXECUTION_FAILED  reason=NODE_FAILED")
    assert lines[3] == f"execution {EXECUTION_ID} FAILED order-intake v3"
