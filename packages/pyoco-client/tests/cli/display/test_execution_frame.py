from dataclasses import replace

import pytest

from execution_answers import EXECUTION_ID
from pyoco_client.cli.display.displayed_execution import DisplayedExecution, DisplayedNode
from pyoco_client.cli.display.execution_frame import execution_frame
from pyoco_client.cli.display.frame_parts import Style
from pyoco_client.cli.display.safe_text import columns_of

NODES = (
    DisplayedNode("start", "SUCCEEDED", 1, began_at=1.0, ended_at=1.0),
    DisplayedNode("fetch", "RUNNING", 2, began_at=10.0, progress=40.0, note="rows"),
    DisplayedNode("pay", "WAITING", 1, began_at=40.0, wait_key="order-1", approvals=(1, 2)),
    DisplayedNode("check", "FAILED", 1, began_at=0.0, ended_at=62.0, note="NO_ROWS: empty"),
    DisplayedNode("ship", "IDLE"),
    DisplayedNode("other", "SKIPPED"),
)
EXECUTION = DisplayedExecution(
    execution_id=EXECUTION_ID,
    graph="order-intake v3",
    status="ACTIVE",
    nodes={node.node_id: node for node in NODES},
    began_at=0.0,
    ended_at=None,
    changed_at=0.0,
)
EVENTS = ("03:15:27 NODE_READY pay", "03:15:28 NODE_STARTED fetch attempt=2")


def rows(
    execution: DisplayedExecution = EXECUTION, columns: int = 80, lines: int = 24
) -> list[str]:
    style = Style(columns, lines, colour=False, unicode=False)
    return execution_frame(execution, EVENTS, now=70.0, tick=0, style=style)


def test_a_frame_has_a_line_for_each_node_and_the_last_events() -> None:
    assert rows() == [
        "| order-intake v3  ACTIVE  1m10s",
        f"  {EXECUTION_ID}",
        "  + start SUCCEEDED   0.0s",
        "  | fetch RUNNING    1m00s  attempt 2  [====      ] 40%  rows",
        "  ? pay   WAITING      30s  key order-1  1 of 2 approvals",
        "  x check FAILED     1m02s  NO_ROWS: empty",
        "  - ship  IDLE",
        "  - other SKIPPED",
        "  [====================                    ] 3/6",
        "  03:15:27 NODE_READY pay",
        "  03:15:28 NODE_STARTED fetch attempt=2",
    ]


def test_a_narrow_row_has_the_progress_as_a_number_only() -> None:
    assert rows(columns=50)[3] == "  | fetch RUNNING    1m00s  attempt 2  40%  rows"
    assert rows(columns=70)[3] == "  | fetch RUNNING    1m00s  attempt 2  [====      ] 40%  rows"


@pytest.mark.parametrize("columns", [4, 5, 12, 20, 30, 40, 79, 200])
@pytest.mark.parametrize("lines", [1, 2, 3, 4, 6, 8, 10, 40])
def test_a_frame_fits_every_terminal(columns: int, lines: int) -> None:
    for style in (Style(columns, lines, False, True), Style(columns, lines, False, False)):
        frame = execution_frame(EXECUTION, EVENTS, now=70.0, tick=3, style=style)
        assert len(frame) <= max(lines - 1, 1)
        assert all(columns_of(row) <= max(columns - 1, 1) for row in frame)


def test_a_small_screen_shows_the_important_nodes_and_counts_the_rest() -> None:
    shown = rows(lines=8)
    assert [row.split()[1] for row in shown[2:5]] == ["fetch", "pay", "check"]
    assert shown[5] == "  3 more: 1 IDLE, 1 SUCCEEDED, 1 SKIPPED"
    assert shown[6].endswith("3/6")


def test_texts_of_the_server_cannot_control_the_terminal() -> None:
    odd = "\x1b[2J\n\x9b"
    node = DisplayedNode("a", "WAITING", 1, wait_key=f"key{odd}", note=f"note{odd}")
    execution = replace(EXECUTION, graph=f"graph{odd}", nodes={"a": node})
    shown = "".join(rows(execution))
    assert shown.isprintable()
    for text in ("graph", "key", "note"):
        assert f"{text}\\u001b[2J\\u000a\\u009b" in shown


def test_an_execution_without_nodes_has_a_headline() -> None:
    assert len(rows(replace(EXECUTION, nodes={}))) == 2


def test_the_headline_has_the_phase_and_the_final_time() -> None:
    assert rows(replace(EXECUTION, phase="canceling"))[0].endswith("ACTIVE  1m10s  canceling")
    ended = replace(EXECUTION, status="COMPLETED", ended_at=5.0)
    assert rows(ended)[0] == "+ order-intake v3  COMPLETED  5.0s"


def test_states_are_painted_where_colours_are_on() -> None:
    style = Style(80, 24, colour=True, unicode=True)
    frame = execution_frame(EXECUTION, (), now=70.0, tick=0, style=style)
    assert "\x1b[31m✗\x1b[0m" in frame[5]
    assert "\x1b[35mWAITING" in frame[4]
    assert "\x1b[2m-\x1b[0m" in frame[6]
