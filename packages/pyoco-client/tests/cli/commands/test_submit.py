import io
import json
import sys
from typing import Any

import pytest

from pyoco_testkit.recorded_answers import GET, OTHER_RUN_ID, RUN_ID, SSE, WATCH, snapshot
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

ACCEPTED = {"run_id": OTHER_RUN_ID, "status": "PENDING"}


def sent(gateway: RecordedGateway) -> Any:
    return json.loads(gateway.requests[-1].body)


def test_a_submission_sends_its_idempotency_key(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, ACCEPTED)
    assert call("submit", "--flow-name", "hello", "--idempotency-key", "report-1").code == 0
    assert gateway.requests[0].headers["X-Idempotency-Key"] == "report-1"
    wrong = call("submit", "--flow-name", "hello", "--idempotency-key", "報告")
    assert (wrong.code, len(gateway.requests)) == (1, 1)
    assert "example: pyoco-client submit --flow-name hello --idempotency-key " in wrong.err


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"run_id": "' + OTHER_RUN_ID + '", "status": "PENDING"}\n'),
        ("jsonl", '{"run_id": "' + OTHER_RUN_ID + '", "status": "PENDING"}\n'),
        ("name", f"{OTHER_RUN_ID}\n"),
        ("status", f"PENDING\t{OTHER_RUN_ID}\n"),
        ("table", f"RUN_ID  {OTHER_RUN_ID}\nSTATUS  PENDING\n"),
        ("wide", f"RUN_ID  {OTHER_RUN_ID}\nSTATUS  PENDING\n"),
    ],
)
def test_the_answer_is_printed_in_each_format(
    form: str, printed: str, gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("POST /runs", 200, ACCEPTED)
    done = call("submit", "--flow-name", "hello", "-o", form)
    assert (done.code, done.out) == (0, printed)


def test_params_and_workflows_can_come_from_stdin(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("POST /runs", 200, ACCEPTED)
    gateway.answer("POST /runs/yaml", 200, ACCEPTED)
    text = io.TextIOWrapper(io.BytesIO('{"name": "太郎"}'.encode()))
    monkeypatch.setattr(sys, "stdin", text)
    assert call("submit", "--flow-name", "hello", "--params-file", "-").code == 0
    assert sent(gateway)["params"] == {"name": "太郎"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"flow: {graph: a}\n")))
    assert call("submit-yaml", "--workflow-file", "-", "--flow-name", "hello").code == 0
    assert b"flow: {graph: a}\n" in gateway.requests[-1].body


PENDING = {"run_id": RUN_ID, "status": "PENDING"}
COMPLETED = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "COMPLETED",
    "params": {},
    "tasks": {},
    "heartbeat_at": 1794949913.0,
    "updated_at": 1794949913.0,
}
RUNNING = {**COMPLETED, "status": "RUNNING"}
FAILED = {**COMPLETED, "status": "FAILED", "error": "ValueError: no"}
HELLO = ("submit", "--flow-name", "hello")


def answer_watch(gateway: RecordedGateway, *snapshots: dict[str, Any]) -> None:
    """Answer a watch of the run with these snapshots."""
    events = [snapshot(each, number) for number, each in enumerate(snapshots, 1)]
    gateway.answer(WATCH, 200, text="".join(events), content_type=SSE)


def test_submit_prints_only_the_answer_on_stdout(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    done = call(*HELLO, "--param", "n=3")
    assert (done.code, done.out, done.err) == (0, json.dumps(PENDING) + "\n", "")
    assert json.loads(gateway.requests[0].body) == {"flow_name": "hello", "params": {"n": 3}}


def test_submit_prints_warnings_of_the_gateway_on_stderr(
    gateway: RecordedGateway, call: Call
) -> None:
    answer = {**PENDING, "warnings": ["no worker carries tag gpu"]}
    gateway.answer("POST /runs", 200, answer)
    done = call(*HELLO, "--tag", "gpu")
    assert (done.code, done.json()) == (0, answer)
    assert done.err == "warning: no worker carries tag gpu\n"


def test_submit_sends_tag_and_labels(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    assert call(*HELLO, "--tag", "cpu", "--tags", "nightly,team-a").code == 0
    assert (sent(gateway)["tag"], sent(gateway)["tags"]) == ("cpu", ["nightly", "team-a"])


def test_submit_wait_prints_the_run_id_first_and_the_run_at_its_end(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    answer_watch(gateway, RUNNING, COMPLETED)
    done = call(*HELLO, "--wait")
    assert (done.code, done.json()) == (0, COMPLETED)
    assert done.err == f"run {RUN_ID} submitted\n"


def test_submit_wait_fails_if_the_run_fails(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    answer_watch(gateway, FAILED)
    done = call(*HELLO, "--wait")
    assert (done.code, done.json()) == (1, FAILED)
    assert f"run {RUN_ID} ended FAILED: ValueError: no" in done.err


def test_submit_wait_stops_at_its_timeout(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, PENDING)
    gateway.answer(GET, 200, RUNNING)
    done = call(*HELLO, "--wait", "--timeout-sec", "0.1")
    assert (done.code, done.out) == (1, "")
    assert "RUNNING after 0.1 s" in done.err
