import io
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from pyoco_client.cli.display.live import follow
from pyoco_client.cli.terminal_environment import TerminalEnvironment
from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.terminal_session import TerminalSession

T0 = 1_794_949_900.0

# Shows the snapshots from a pipe, so that the test decides when each one arrives. The clock shows
# the `_now` of the last snapshot, so that the whole screen can be compared.
PROGRAM = """
import json, os, sys
from pyoco_client.cli.display.live import follow
now = [float(sys.argv[2])]
def snapshots():
    for line in os.fdopen(int(sys.argv[1])):
        snapshot = json.loads(line)
        now[0] = snapshot.pop("_now", now[0])
        yield snapshot
try:
    follow(snapshots(), sys.stdout, clock=lambda: now[0])
except KeyboardInterrupt:
    sys.exit(130)
"""


class Viewer:
    """A terminal with the live view of a run."""

    def __init__(self, session: TerminalSession, pipe: int) -> None:
        self.session = session
        self._pipe = pipe

    @property
    def rows(self) -> list[str]:
        # The spinner depends on the time.
        return [re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", row) for row in self.session.screen.rows]

    def send(self, **snapshot: Any) -> None:
        fields = {"run_id": RUN_ID, "flow_name": "hello", "submitted_at": T0, "updated_at": T0}
        os.write(self._pipe, json.dumps({**fields, **snapshot}).encode() + b"\n")

    def hang_up(self) -> None:
        os.close(self._pipe)
        self._pipe = -1


Opened = Callable[..., AbstractAsyncContextManager[Viewer]]


@asynccontextmanager
async def viewer(script: str | None = None, **options: Any) -> AsyncIterator[Viewer]:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(read_end), str(T0)]
    if script is not None:
        command = ["/bin/bash", "-m", "-c", script, "bash", *command]
    async with TerminalSession(command, open_files=[read_end], **options) as session:
        os.close(read_end)
        shown = Viewer(session, write_end)
        try:
            yield shown
        finally:
            if shown._pipe >= 0:
                shown.hang_up()


def records(**tasks: tuple[str, float | None]) -> dict[str, Any]:
    return {
        "tasks": {name: state for name, (state, _) in tasks.items()},
        "task_records": {
            name: {"state": state, **({"duration_ms": took * 1000} if took is not None else {})}
            for name, (state, took) in tasks.items()
        },
    }


async def test_a_run_is_shown_from_pending_to_its_result() -> None:
    async with viewer(before="$ pyoco-client watch\n") as shown:
        shown.send(status="PENDING", tag="cpu", _now=T0 + 3)
        await shown.session.shows("waits for")
        assert shown.rows == [
            "$ pyoco-client watch",
            "- hello  PENDING  3.0s",
            f"  {RUN_ID}",
            "  waits for a worker with tag cpu",
        ]
        assert not shown.session.screen.is_cursor_visible
        running = records(
            choose=("SUCCEEDED", 0.25), greet=("RUNNING", None), count=("PENDING", None)
        )
        running["task_records"]["greet"]["started_at"] = T0 + 4
        shown.send(status="RUNNING", start_time=T0 + 3, _now=T0 + 10, **running)
        await shown.session.shows("1/3")
        assert shown.rows == [
            "$ pyoco-client watch",
            "⠋ hello  RUNNING  7.0s",
            f"  {RUN_ID}",
            "  ✓ choose SUCCEEDED   0.2s",
            "  ⠋ greet  RUNNING     6.0s",
            "  - count  PENDING",
            "  [=============                           ] 1/3",
        ]
        ended = records(choose=("SUCCEEDED", 0.25), greet=("SUCCEEDED", 61), count=("SUCCEEDED", 0))
        shown.send(
            status="COMPLETED",
            start_time=T0 + 3,
            end_time=T0 + 70,
            updated_at=T0 + 70,
            result={"count": 5, "text": "挨拶\x1b[31m"},
            _now=T0 + 71,
            **ended,
        )
        shown.hang_up()
        assert await shown.session.ended() == 0
        assert shown.rows == [
            "$ pyoco-client watch",
            "✓ hello  COMPLETED  1m07s",
            f"  {RUN_ID}",
            "  ✓ choose SUCCEEDED   0.2s",
            "  ✓ greet  SUCCEEDED  1m01s",
            "  ✓ count  SUCCEEDED   0.0s",
            "  [========================================] 3/3",
            'result: {"count": 5, "text": "挨拶\\u001b[31m"}',
        ]
        assert shown.session.is_as_found


@pytest.mark.parametrize(
    ("columns", "headline", "tasks"),
    [
        (
            80,
            "⠋ 日次売上レポートの作成と配信（全店舗・確定値）  RUNNING  12s  attempt 2",
            [
                "  ✓ 店舗データの取得とクレンジング            SUCCEEDED   1.5s",
                "  ⠋ 集計                                      RUNNING      10s",
                "  - レポートのPDF化およびメール配信と監査ログ PENDING",
            ],
        ),
        (
            40,
            "⠋ 日次売上レポートの作..  RUNNING  12s",
            [
                "  ✓ 店舗データの取得.. SUCCEEDED   1.5s",
                "  ⠋ 集計               RUNNING      10s",
                "  - レポートのPDF化..  PENDING",
            ],
        ),
    ],
    ids=["80 columns", "40 columns"],
)
async def test_japanese_names_are_aligned_in_columns(
    columns: int, headline: str, tasks: list[str]
) -> None:
    async with viewer(columns=columns) as shown:
        fetch, send = "店舗データの取得とクレンジング", "レポートのPDF化およびメール配信と監査ログ"
        tasks_told = records(
            **{fetch: ("SUCCEEDED", 1.5), "集計": ("RUNNING", None), send: ("PENDING", None)}
        )
        tasks_told["task_records"]["集計"]["started_at"] = T0 + 2
        flow = "日次売上レポートの作成と配信（全店舗・確定値）"
        shown.send(
            flow_name=flow, status="RUNNING", start_time=T0, attempt=2, _now=T0 + 12, **tasks_told
        )
        await shown.session.shows("1/3")
        assert shown.rows[0] == headline
        assert shown.rows[1] == f"  {RUN_ID}"
        assert shown.rows[2:5] == tasks
        assert shown.rows[5].endswith("] 1/3")
        # Each task has one row: no line has wrapped.
        assert len(shown.rows) == 6


async def test_with_more_tasks_than_rows_the_important_ones_are_shown_and_the_rest_counted() -> (
    None
):
    async with viewer(columns=40, lines=9) as shown:
        many = {f"task-{number:03}": ("SUCCEEDED", 0.1) for number in range(150)}
        fields = {**many, "task-007": ("FAILED", 0.1), "task-149": ("RUNNING", None)}
        for number in range(150, 200):
            fields[f"task-{number}"] = ("PENDING", None)
        shown.send(status="RUNNING", start_time=T0, **records(**fields))
        await shown.session.shows("200")
        assert shown.rows == [
            "⠋ hello  RUNNING  0.0s",
            f"  {RUN_ID}",
            "  ✗ task-007 FAILED      0.1s",
            "  ⠋ task-149 RUNNING     0.0s",
            "  - task-150 PENDING",
            "  - task-151 PENDING",
            "  196 more: 48 PENDING, 148 SUCCEEDED",
            "  [====================       ] 149/200",
        ]
        shown.send(status="FAILED", start_time=T0, error="task-007: no", **records(**fields))
        await shown.session.shows("✗ hello")
        # The new frame replaces the old one.
        assert len(shown.session.screen.history) == 8


async def test_errors_are_printed_in_full_below_the_tasks() -> None:
    async with viewer() as shown:
        fields = records(fetch=("FAILED", 0.5))
        fields["task_records"]["fetch"]["error"] = "OSError: disk\nfull \x9b31m"
        shown.send(
            status="FAILED",
            end_time=T0 + 1,
            err_id="ERR-PYOCO-0006",
            error="fetch failed",
            **fields,
        )
        shown.hang_up()
        assert await shown.session.ended() == 0
        assert shown.rows == [
            "✗ hello  FAILED  1.0s",
            f"  {RUN_ID}",
            "  ✗ fetch FAILED      0.5s",
            "error: ERR-PYOCO-0006: fetch failed",
            "error of fetch: OSError: disk",
            "  full \\u009b31m",
        ]


async def test_control_characters_in_names_are_escaped() -> None:
    async with viewer() as shown:
        evil = "\x1b[2J\x1b]0;owned\x07\r\n\u202egnp"
        shown.send(flow_name=evil, status=evil, tag=evil, **records(**{evil: (evil, 1)}))
        shown.hang_up()
        # The test screen raises an error for any unexpected control sequence.
        assert await shown.session.ended() == 0
        assert shown.rows[2].startswith(
            "  ? \\u001b[2J\\u001b]0;owned\\u0007\\u000d\\u000a\\u202egnp"
        )
        assert shown.session.is_as_found


async def test_states_have_colours_unless_no_color_is_set() -> None:
    fields = records(good=("SUCCEEDED", 1), bad=("FAILED", 1))
    async with viewer() as shown:
        shown.send(status="RUNNING", **fields)
        await shown.session.shows("2/2")
        assert shown.session.screen.colours_of("SUCCEEDED") == {"32"}
        assert shown.session.screen.colours_of("FAILED") == {"31"}
        assert shown.session.screen.colours_of("good") == {""}
    async with viewer(env={"NO_COLOR": "1"}) as shown:
        shown.send(status="RUNNING", **fields)
        await shown.session.shows("2/2")
        assert {colour for _, colour in shown.session.screen.painted} == {""}
        assert "⠋ hello  RUNNING" in shown.rows[0]


async def test_ctrl_c_restores_the_terminal() -> None:
    async with viewer(before="$ pyoco-client watch\n") as shown:
        shown.send(status="RUNNING", start_time=T0, **records(a=("RUNNING", None)))
        await shown.session.shows("a RUNNING")
        shown.session.type("\x03")
        assert await shown.session.ended() == 130
        assert shown.rows == [
            "$ pyoco-client watch",
            "⠋ hello  RUNNING  0.0s",
            f"  {RUN_ID}",
            "  ⠋ a RUNNING     0.0s",
            "Stopped watching; the run continues.",
        ]
        assert shown.session.is_as_found
        assert shown.session.screen.cursor == (0, 5)


async def test_a_terminated_process_restores_the_terminal() -> None:
    async with viewer() as shown:
        shown.send(status="RUNNING")
        await shown.session.shows("RUNNING")
        os.kill(shown.session.pid, signal.SIGTERM)
        assert await shown.session.ended() == -signal.SIGTERM
        assert shown.session.is_as_found


async def test_ctrl_z_restores_the_terminal_until_the_view_continues() -> None:
    async with viewer(script='"$@"; read; fg > /dev/null') as shown:
        shown.send(status="RUNNING", start_time=T0, **records(a=("RUNNING", None)))
        await shown.session.shows("a RUNNING")
        shown.session.type("\x1a")
        await shown.session.shows("Stopped")
        assert shown.session.is_as_found
        above = len(shown.rows)
        shown.session.type("\r")
        shown.send(status="COMPLETED", start_time=T0, **records(a=("SUCCEEDED", 1)))
        await shown.session.shows("✓ hello")
        assert not shown.session.screen.is_cursor_visible
        shown.hang_up()
        assert await shown.session.ended() == 0
        assert shown.rows[above:][-3:] == [
            "✓ hello  COMPLETED  0.0s",
            f"  {RUN_ID}",
            "  ✓ a SUCCEEDED   1.0s",
        ]
        assert shown.session.is_as_found


@pytest.mark.parametrize("reflows", [True, False])
@pytest.mark.parametrize("columns", [40, 30, 120])
async def test_a_resized_window_is_redrawn_in_place(reflows: bool, columns: int) -> None:
    environment = {} if reflows else {"XTERM_VERSION": "XTerm(390)"}
    above = [f"line {number} before" for number in range(8)]
    async with viewer(
        reflows=reflows, env=environment, before="".join(f"{line}\n" for line in above)
    ) as shown:
        fields = records(**{"long " * 12: ("SUCCEEDED", 1), "short": ("PENDING", None)})
        shown.send(status="PENDING", **fields)
        await shown.session.shows("1/2")
        before = shown.rows
        shown.session.resize(columns, 20)
        shown.send(status="PENDING", flow_name="hello again", **fields)
        await shown.session.shows("hello again")
        await shown.session.shows("1/2")
        assert shown.rows[:8] == above
        assert shown.rows[8] == "- hello again  PENDING  0.0s"
        assert len(shown.rows) == (len(before) if columns > 38 else len(before) + 1)
        assert "".join(row.strip() for row in shown.rows[9:11]).startswith(RUN_ID)
        assert all(len(row) < columns for row in shown.rows)


@pytest.mark.parametrize("size", [(1, 1), (8, 2), (12, 4), (20, 3)])
async def test_a_tiny_window_causes_no_error(size: tuple[int, int]) -> None:
    async with viewer(columns=size[0], lines=size[1]) as shown:
        shown.send(status="RUNNING", **records(first=("RUNNING", None), second=("PENDING", None)))
        shown.send(status="COMPLETED", **records(first=("SUCCEEDED", 1), second=("SUCCEEDED", 1)))
        shown.hang_up()
        assert await shown.session.ended() == 0
        assert shown.session.is_as_found


PLAIN = [
    f"run {RUN_ID} PENDING hello",
    "task a RUNNING",
    f"run {RUN_ID} RUNNING hello",
    "task a SUCCEEDED 1.5s",
    f"run {RUN_ID} COMPLETED hello",
    'result: {"a": 1}',
]


async def test_a_dumb_terminal_gets_a_line_for_each_change() -> None:
    async with viewer(env={"TERM": "dumb"}) as shown:
        shown.send(status="PENDING")
        shown.send(status="RUNNING", **records(a=("RUNNING", None)))
        shown.send(status="RUNNING", **records(a=("RUNNING", None)))
        shown.send(status="COMPLETED", result={"a": 1}, **records(a=("SUCCEEDED", 1.5)))
        shown.hang_up()
        assert await shown.session.ended() == 0
        assert shown.rows == PLAIN


def snapshots() -> Iterator[dict[str, Any]]:
    base = {"run_id": RUN_ID, "flow_name": "hello"}
    yield {**base, "status": "PENDING"}
    yield {**base, "status": "RUNNING", **records(a=("RUNNING", None))}
    yield {**base, "status": "COMPLETED", "result": {"a": 1}, **records(a=("SUCCEEDED", 1.5))}


def test_a_pipe_gets_a_line_for_each_change_and_the_caller_the_last_snapshot() -> None:
    stream = io.StringIO()
    last = follow(snapshots(), stream)
    assert last is not None
    assert last["status"] == "COMPLETED"
    assert stream.getvalue().splitlines() == PLAIN


def test_a_new_attempt_is_a_change() -> None:
    stream = io.StringIO()
    base = {"run_id": RUN_ID, "flow_name": "挨拶", "status": "RUNNING"}
    follow([{**base, "attempt": 1}, {**base, "attempt": 1}, {**base, "attempt": 2}], stream)
    assert stream.getvalue().splitlines() == [
        f"run {RUN_ID} RUNNING 挨拶",
        f"run {RUN_ID} RUNNING 挨拶 attempt 2",
    ]


def test_no_snapshots_cause_no_error() -> None:
    assert follow([], io.StringIO()) is None


def test_characters_missing_in_ascii_are_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    follow([{"run_id": RUN_ID, "flow_name": "挨拶", "status": "RUNNING"}], stream)
    assert raw.getvalue() == f"run {RUN_ID} RUNNING \\u6328\\u62f6\n".encode()


def test_an_explicit_environment_replaces_that_of_the_process() -> None:
    stream = io.StringIO()
    environment = TerminalEnvironment(term="xterm", no_color=False, reflows=True)
    follow(snapshots(), stream, environment=environment)
    assert stream.getvalue().splitlines() == PLAIN
