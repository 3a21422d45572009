import json

import pytest

from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

PENDING = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "PENDING",
    "params": {},
    "tasks": {},
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
}
RUNNING = {**PENDING, "status": "RUNNING", "updated_at": 2.0, "tasks": {"a": "RUNNING"}}
CANCELLED = {**RUNNING, "status": "CANCELLED", "updated_at": 3.0, "cancel_reason": "enough"}


@pytest.fixture
def cancelled_run(gateway: RecordedGateway) -> None:
    """Answer a watch with a run that is pending, running and then cancelled."""
    gateway.answer(f"GET /runs/{RUN_ID}", 200, PENDING)
    events = [
        f"event: snapshot\nid: {number}\ndata: {json.dumps({'snapshot': each})}\n\n"
        "event: heartbeat\ndata: {}\n\n"
        for number, each in enumerate((PENDING, RUNNING, CANCELLED), 1)
    ]
    route = f"GET /runs/{RUN_ID}/watch"
    gateway.answer(route, 200, text="".join(events), content_type="text/event-stream")


@pytest.mark.usefixtures("cancelled_run")
def test_json_prints_one_event_of_the_stream_per_line(call: Call) -> None:
    done = call("watch", RUN_ID, "--output", "json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert [each["event"] for each in events] == ["snapshot"] * 3
    assert [each["data"]["run_id"] for each in events] == [RUN_ID] * 3
    assert [each["data"]["snapshot"] for each in events] == [PENDING, RUNNING, CANCELLED]


@pytest.mark.usefixtures("cancelled_run")
def test_the_other_formats_print_one_line_per_change(call: Call) -> None:
    whole = call("watch", RUN_ID, "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in whole] == [PENDING, RUNNING, CANCELLED]
    short = call("watch", RUN_ID, "-o", "status").out.splitlines()
    assert [line.split("\t")[1:] for line in short] == [
        ["snapshot", status, RUN_ID] for status in ("PENDING", "RUNNING", "CANCELLED")
    ]
    wide = call("watch", RUN_ID, "-o", "wide").out.splitlines()
    assert [line.split()[-1] for line in wide] == ["PENDING", "a=RUNNING", "a=RUNNING"]
    assert call("watch", RUN_ID, "-o", "name").out == f"{RUN_ID}\n"


@pytest.mark.usefixtures("cancelled_run")
def test_a_watch_stops_after_max_events(call: Call) -> None:
    done = call("watch", RUN_ID, "--max-events", "2", "-o", "jsonl")
    assert (done.code, len(done.out.splitlines()), done.err) == (0, 2, "")


@pytest.mark.usefixtures("cancelled_run")
def test_since_skips_earlier_changes(call: Call) -> None:
    done = call("watch", RUN_ID, "--since", "2", "-o", "jsonl")
    assert [json.loads(line)["status"] for line in done.out.splitlines()] == ["CANCELLED"]


@pytest.mark.usefixtures("cancelled_run")
def test_since_after_the_end_shows_the_end_of_the_run(call: Call) -> None:
    done = call("watch", RUN_ID, "--since", "99999", "-o", "jsonl", "--exit-status")
    assert [json.loads(line)["status"] for line in done.out.splitlines()] == ["CANCELLED"]
    assert (done.code, done.err) == (1, f"run {RUN_ID} ended CANCELLED: enough\n")


def test_a_time_that_is_not_finite_is_rejected(call: Call) -> None:
    done = call("watch", RUN_ID, "--since", "nan")
    assert done.code == 1
    assert "nan is not" in done.err


@pytest.mark.usefixtures("cancelled_run")
def test_exit_status_makes_the_exit_code_that_of_the_run(call: Call) -> None:
    assert call("watch", RUN_ID).code == 0
    done = call("watch", RUN_ID, "--exit-status")
    assert (done.code, done.err) == (1, f"run {RUN_ID} ended CANCELLED: enough\n")


def test_records_are_requested_only_with_records(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, CANCELLED)
    event = f"event: snapshot\nid: 1\ndata: {json.dumps({'snapshot': CANCELLED})}\n\n"
    route = f"GET /runs/{RUN_ID}/watch"
    gateway.answer(route, 200, text=event, content_type="text/event-stream")
    call("watch", RUN_ID)
    assert "include" not in gateway.requests[-1].target
    call("watch", RUN_ID, "--records")
    assert "include=records" in gateway.requests[-1].target


def test_an_outage_is_told_once_on_stderr(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, PENDING)
    event = f"event: snapshot\nid: 1\ndata: {json.dumps({'snapshot': PENDING})}\n\n"
    ended = f"event: snapshot\nid: 2\ndata: {json.dumps({'snapshot': CANCELLED})}\n\n"
    route = f"GET /runs/{RUN_ID}/watch"
    gateway.answer(route, 200, text=event, content_type="text/event-stream", missing_bytes=9)
    gateway.answer(route, hang_up=True)
    gateway.answer(route, 200, text=ended, content_type="text/event-stream")
    done = call("watch", RUN_ID, "-o", "status")
    assert [line.split("\t")[2] for line in done.out.splitlines()] == ["PENDING", "CANCELLED"]
    lost, back = done.err.splitlines()
    assert lost.startswith("no news, trying again: ERR-PYOCO-0001: ")
    assert back.startswith("up to date again after ")
