import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
NEW_ID = "0b8e6c1d-9f0a-4c57-8d53-3f1f6f0f2a11"
ACCEPTED = {"run_id": NEW_ID, "status": "PENDING"}
OLD = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "FAILED",
    "params": {"name": "a", "count": 1},
    "tasks": {},
    "tag": "cpu",
    "tags": ["nightly"],
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
}


class Sent(Protocol):
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def body(self) -> bytes: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    @property
    def requests(self) -> list[Sent]: ...

    def answer(self, route: str, status: int = 200, body: Any = None) -> None: ...


Call = Callable[..., Any]


def sent(gateway: Gateway) -> Any:
    return json.loads(gateway.requests[-1].body)


def test_a_rerun_takes_everything_over_and_what_is_given_wins(gateway: Gateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, OLD)
    gateway.answer("POST /runs", 200, ACCEPTED)
    done = call("rerun", RUN_ID, "--param", "name=b")
    assert (done.code, done.json()) == (0, ACCEPTED)
    assert done.err == f"run {RUN_ID} is run again as {NEW_ID}\n"
    assert sent(gateway) == {
        "flow_name": "hello",
        "params": {"name": "b", "count": 1},
        "tag": "cpu",
        "tags": ["nightly"],
    }


@pytest.mark.parametrize(
    ("labels", "kept"), [(["nightly"], ["nightly"]), (["cpu"], None), (["cpu", "x"], ["cpu", "x"])]
)
def test_a_rerun_elsewhere_keeps_labels_that_were_given(
    labels: list[str], kept: list[str] | None, gateway: Gateway, call: Call
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**OLD, "tags": labels})
    gateway.answer("POST /runs", 200, ACCEPTED)
    assert call("rerun", RUN_ID, "--tag", "gpu").code == 0
    assert (sent(gateway)["tag"], sent(gateway).get("tags")) == ("gpu", kept)


def test_a_run_of_a_workflow_file_is_not_run_again_without_the_file(
    gateway: Gateway, call: Call
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**OLD, "workflow_yaml_sha256": "ab" * 32})
    done = call("rerun", RUN_ID)
    assert (done.code, done.out, len(gateway.requests)) == (1, "", 1)
    assert "submit-yaml --workflow-file flow.yaml --flow-name hello --tag cpu" in done.err


def test_an_idempotency_key_goes_with_the_submission(gateway: Gateway, call: Call) -> None:
    gateway.answer("POST /runs", 200, ACCEPTED)
    assert call("submit", "--flow-name", "hello", "--idempotency-key", "report-1").code == 0
    assert gateway.requests[0].headers["X-Idempotency-Key"] == "report-1"
    wrong = call("submit", "--flow-name", "hello", "--idempotency-key", "報告")
    assert (wrong.code, len(gateway.requests)) == (1, 1)
    assert "example: pyoco-client submit --flow-name hello --idempotency-key " in wrong.err


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"run_id": "' + NEW_ID + '", "status": "PENDING"}\n'),
        ("jsonl", '{"run_id": "' + NEW_ID + '", "status": "PENDING"}\n'),
        ("name", f"{NEW_ID}\n"),
        ("status", f"PENDING\t{NEW_ID}\n"),
        ("table", f"RUN_ID  {NEW_ID}\nSTATUS  PENDING\n"),
        ("wide", f"RUN_ID  {NEW_ID}\nSTATUS  PENDING\n"),
    ],
)
def test_the_answer_is_printed_in_the_form_that_was_asked_for(
    form: str, printed: str, gateway: Gateway, call: Call
) -> None:
    gateway.answer("POST /runs", 200, ACCEPTED)
    done = call("submit", "--flow-name", "hello", "-o", form)
    assert (done.code, done.out) == (0, printed)


def test_params_and_workflows_come_from_stdin_too(
    gateway: Gateway, call: Call, monkeypatch: pytest.MonkeyPatch
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


def test_the_faults_of_a_workflow_file_are_told_line_by_line(
    gateway: Gateway, call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("flow: {}\n")
    problem = {"code": "x", "where": "tasks.a", "line": 3, "what": "is no task"}
    fault = {"where": "flow_name", "what": "is too long"}
    body = {"err_id": "ERR-PYOCO-0002", "message": "not valid", "problems": [problem, fault]}
    gateway.answer("POST /runs/yaml", 422, body)
    done = call("submit-yaml", "--workflow-file", str(file), "--flow-name", "x")
    assert (done.code, done.out) == (1, "")
    assert "  line 3: tasks.a: is no task\n  flow_name: is too long\n" in done.err
