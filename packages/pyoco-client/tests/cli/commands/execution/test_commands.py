import io
import json
import sys
from typing import Any

import pytest

from execution_answers import (
    AT,
    EXECUTION_ID,
    GET,
    LATER,
    OTHER_ID,
    PATH,
    SSE,
    answer,
    event,
    node,
    problem,
    rejection,
    told_end,
    view,
)
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

CREATED = answer("CreateExecution", graphId="order-intake", graphVersion=3)


def test_a_typo_in_a_command_is_corrected(call: Call) -> None:
    done = call("execution", "creat", "order-intake")
    assert done.code == 1
    assert "No such command 'creat'. Did you mean create?" in done.err
    assert " execution create order-intake\n" in done.err


def body(gateway: RecordedGateway, index: int = -1) -> Any:
    return json.loads(gateway.requests[index].body)


def test_an_execution_is_created_and_its_id_printed(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /executions", 202, CREATED)
    words = ["order-intake", "--input", '{"a": 1}', "--input", "b=two", "--label", "vip"]
    done = call("execution", "create", *words, "--graph-version", "3")
    assert (done.code, done.json(), done.err) == (0, CREATED, "")
    assert body(gateway) == {
        "graphId": "order-intake",
        "graphVersion": 3,
        "input": {"a": 1, "b": "two"},
        "labels": ["vip"],
        "start": True,
    }
    named = call("execution", "create", "--graph-id", "order-intake", "--no-start", "-o", "name")
    assert named.out == f"{EXECUTION_ID}\n"
    assert body(gateway) == {"graphId": "order-intake", "start": False}
    table = call("execution", "create", "order-intake", "-o", "table").out
    assert "GRAPH         order-intake v3" in table.splitlines()
    status = call("execution", "create", "order-intake", "-o", "status").out
    assert status == f"ACTIVE\t{EXECUTION_ID}\n"


def test_a_creation_without_an_answer_says_how_to_repeat_it(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("POST /executions", hang_up=True)
    gateway.answer("POST /executions", 503, problem("OUTCOME_UNKNOWN", "0159"))
    gateway.answer("POST /executions", 422, problem("INPUT_INVALID", "0153"))
    for _ in range(2):
        done = call("execution", "create", "order-intake")
        key = gateway.requests[-1].headers["X-Idempotency-Key"]
        assert f"--idempotency-key {key}" in done.err
        assert done.code == 1
    assert "--idempotency-key" not in call("execution", "create", "order-intake").err


def test_a_repeated_creation_is_told(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("POST /executions", 200, CREATED, headers={"Idempotency-Replayed": "true"})
    done = call("execution", "create", "order-intake", "--idempotency-key", "k")
    assert (done.code, done.err) == (0, "the execution existed already\n")
    assert gateway.requests[0].headers["X-Idempotency-Key"] == "k"


@pytest.mark.parametrize("key", ["", "x" * 256, "line\nbreak", "鍵"])
def test_a_key_that_a_header_cannot_carry_is_explained(call: Call, key: str) -> None:
    done = call("execution", "create", "order-intake", "--idempotency-key", key)
    assert done.code == 1
    assert "--idempotency-key must be 1 to 255 printable ASCII characters" in done.err


@pytest.mark.parametrize("words", [[], ["a", "--graph-id", "b"], [".."]])
def test_a_graph_id_is_required_once(call: Call, words: list[str]) -> None:
    done = call("execution", "create", *words)
    assert done.code == 1
    assert "example: pyoco-client execution create order-intake" in done.err


COMMANDS = [
    (["start"], "start", {}),
    (["resume", "pay", "--resume-key", "k", "--payload", "ok=true"], "nodes/pay/resume", None),
    (["reject", "pay", "--message", "no"], "nodes/pay/fail", None),
    (["cancel", "--reason", "why"], "cancel", {"reason": "why"}),
    (["archive", "--reason", "old"], "archive", {"reason": "old"}),
]


@pytest.mark.parametrize(
    ("words", "route", "sent"), COMMANDS, ids=[each[0][0] for each in COMMANDS]
)
def test_a_command_is_sent_and_its_answer_printed(
    gateway: RecordedGateway, call: Call, words: list[str], route: str, sent: Any
) -> None:
    accepted = answer("Some", status="ACTIVE")
    gateway.answer(f"POST {PATH}/{route}", 202, accepted)
    done = call("execution", words[0], EXECUTION_ID, *words[1:])
    assert (done.code, done.json(), done.err) == (0, accepted, "")
    if sent is not None:
        assert body(gateway) == sent


def test_resume_and_reject_send_their_fields(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"POST {PATH}/nodes/pay/resume", 202, answer("ResumeNode"))
    gateway.answer(f"POST {PATH}/nodes/pay/fail", 202, answer("FailNode"))
    call("execution", "resume", EXECUTION_ID, "pay", "--resume-key", "k", "--payload", "ok=true")
    assert body(gateway) == {"payload": {"ok": True}, "resumeKey": "k"}
    # Both ids may be options.
    words = ["--execution-id", EXECUTION_ID, "--node-id", "pay", "--message", "no"]
    call("execution", "reject", *words)
    assert body(gateway) == {"error": {"code": "REJECTED", "message": "no"}, "retryable": False}


def test_an_approval_counts_or_resumes(gateway: RecordedGateway, call: Call) -> None:
    waiting = node("pay", "WAITING", "Wait", waitKey="k")
    gateway.answer(GET, 200, view(nodes=[{**waiting, "approvals": {"needed": 2, "given": 1}}]))
    gateway.answer(GET, 200, view(nodes=[waiting]))
    gateway.answer(f"POST {PATH}/nodes/pay/resume-request", 202, answer("RequestResumeNode"))
    done = call("execution", "approve", EXECUTION_ID, "pay", "--comment", "fine")
    assert done.json()["command"] == "RequestResumeNode"
    assert body(gateway) == {"comment": "fine", "resumeKey": "k"}
    refused = call("execution", "approve", EXECUTION_ID, "pay", "--comment", "fine")
    assert refused.code == 1
    assert "--comment: node pay needs no approvals" in refused.err


def test_a_rejection_is_explained(gateway: RecordedGateway, call: Call) -> None:
    refusal = rejection("APPROVALS_REQUIRED", nodeStatus="WAITING")
    gateway.answer(f"POST {PATH}/nodes/pay/resume", 409, refusal)
    done = call("execution", "resume", EXECUTION_ID, "pay")
    assert done.code == 1
    assert done.err.splitlines() == [
        "pyoco-client: ERR-PYOCO-0150: m",
        "  reason: APPROVALS_REQUIRED (execution ACTIVE, node WAITING, seq 9)",
        "  detail: d",
        "  hint: h",
        "  request id: r",
    ]


@pytest.mark.parametrize("command", ["approve", "resume"])
def test_an_error_about_a_payload_has_an_example_with_one(call: Call, command: str) -> None:
    done = call("execution", command, EXECUTION_ID, "pay", "--payload", "[1]")
    assert done.code == 1
    assert "--payload" in done.err.partition("example: ")[2]


@pytest.mark.parametrize("command", ["get", "start", "watch", "events", "cancel", "archive"])
def test_an_id_of_another_form_is_rejected_before_a_request(
    gateway: RecordedGateway, call: Call, command: str
) -> None:
    done = call("execution", command, "order-4711")
    assert done.code == 1
    assert "'order-4711' is not an execution id; list them: pyoco-client execution list" in done.err
    assert call("execution", command).code == 1
    assert gateway.requests == []


def test_the_state_is_printed_with_its_nodes(gateway: RecordedGateway, call: Call) -> None:
    nodes = [
        node("fetch", "RUNNING", progress={"at": AT, "value": 40, "message": "rows"}),
        node("pay", "WAITING", "Wait", waitKey="k", approvals={"needed": 2, "given": 1}),
        node("late", "CANCELED", cancelReason="JOIN_PASSED", lateOutcome="SUCCEEDED"),
        node("no", "CANCELED", cancelReason="NOT_TAKEN", skipped=True, attempt=0),
        node("slow", "RUNNING", cancelReason="EXECUTION_CANCELED"),
    ]
    state = view(nodes=nodes, cancelRequestedAt=AT, cancelRequestedBy={"kind": "user", "id": "ann"})
    gateway.answer(GET, 200, state)
    assert call("execution", "get", EXECUTION_ID).json() == state
    lines = call("execution", "get", EXECUTION_ID, "-o", "table").out.splitlines()
    assert lines[:3] == [
        f"EXECUTION_ID  {EXECUTION_ID}",
        "STATUS        ACTIVE",
        "GRAPH         order-intake v3",
    ]
    assert "CANCEL        ann" in lines
    table = lines[lines.index("") + 1 :]
    assert [line.split() for line in table[1:]] == [
        ["fetch", "Task", "RUNNING", "1", "40%,", "rows"],
        ["pay", "Wait", "WAITING", "1", "key", "k,", "1", "of", "2", "approvals"],
        ["late", "Task", "CANCELED", "1", "JOIN_PASSED,", "late", "result", "SUCCEEDED"],
        ["no", "Task", "SKIPPED", "0"],
        ["slow", "Task", "RUNNING", "1", "stopping:", "EXECUTION_CANCELED"],
    ]
    call("execution", "get", EXECUTION_ID, "--at-seq", "3", "--values")
    assert gateway.last_query() == {"atSeq": ["3"], "include": ["values"]}


def test_the_table_of_an_execution_with_its_values_has_its_prompts(
    gateway: RecordedGateway, call: Call
) -> None:
    waiting = node("pay", "WAITING", "Wait", prompt={"text": "Charge 7\x1b[31m?"})
    gateway.answer(GET, 200, view(nodes=[waiting]))
    done = call("execution", "get", EXECUTION_ID, "--values", "-o", "table")
    assert '{"text": "Charge 7\\u001b[31m?"}' in done.out


def item(execution_id: str) -> dict[str, Any]:
    return {
        "executionId": execution_id,
        "status": "ACTIVE",
        "graphId": "order-intake",
        "graphVersion": 3,
        "labels": ["vip"],
        "seq": 7,
        "createdAt": AT,
        "updatedAt": AT,
        "counts": {"RUNNING": 1, "IDLE": 2},
        "openNodes": ["fetch"],
    }


def test_executions_are_listed(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": "c"})
    gateway.answer("GET /executions", 200, {"items": [item(OTHER_ID)], "nextCursor": None})
    words = ["--status", "active", "--label", "vip", "--graph-id", "g", "--cancel-requested"]
    times = ["--created-after", "2026-11-18T03:15:27+09:00", "--archived", "any"]
    assert call("execution", "list", *words, *times).json() == [item(EXECUTION_ID)]
    assert gateway.last_query() == {
        "status": ["ACTIVE"],
        "graphId": ["g"],
        "label": ["vip"],
        "cancelRequested": ["true"],
        "archived": ["any"],
        "createdAfter": ["2026-11-17T18:15:27.000Z"],
    }
    assert call("execution", "list", "-o", "name").out == f"{OTHER_ID}\n"
    table = call("execution", "list", "-o", "table").out.splitlines()
    assert table[0].split() == ["EXECUTION_ID", "STATUS", "GRAPH", "UPDATED", "NODES"]
    assert table[1].endswith("1 RUNNING 2 IDLE")


@pytest.mark.parametrize("form", ["json", "name", "table"])
def test_a_list_that_the_limit_has_cut_says_so(
    form: str, gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": "c"})
    gateway.answer("GET /executions", 200, {"items": [item(OTHER_ID)], "nextCursor": None})
    done = call("execution", "list", "--limit", "1", "-o", form)
    assert done.code == 0
    assert done.err == "not listed: more executions (use --limit up to 200, or --all)\n"
    assert call("execution", "list", "-o", form).err == ""


@pytest.mark.parametrize("form", ["name", "jsonl", "json"])
def test_all_executions_of_all_pages_are_listed(
    gateway: RecordedGateway, call: Call, form: str
) -> None:
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": "c"})
    gateway.answer("GET /executions", 200, {"items": [item(OTHER_ID)], "nextCursor": None})
    done = call("execution", "list", "--all", "-o", form)
    assert done.code == 0
    assert all(each in done.out for each in (EXECUTION_ID, OTHER_ID))
    assert call("execution", "list", "--all", "--limit", "3").code == 1


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "9999-99-99T00:00:00Z"])
def test_a_time_that_is_none_is_explained(call: Call, text: str) -> None:
    done = call("execution", "list", "--created-after", text)
    assert done.code == 1
    assert f"{text!r} is not a time such as 2026-11-18T03:15:27Z." in done.err


EVENTS = [
    event(7, "NODE_STARTED", nodeId="fetch", attempt=2, workerId="w\x1b[31m"),
    event(8, "NODE_FAILED", nodeId="fetch", attempt=2, error={"code": "A", "message": "b"}),
]


def test_events_are_printed(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {"items": EVENTS, "nextAfterSeq": None, "lastSeq": 8}
    gateway.answer(f"GET {PATH}/events", 200, page)
    assert call("execution", "events", EXECUTION_ID).json() == EVENTS
    lines = call("execution", "events", EXECUTION_ID, "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == EVENTS
    words = ["--after-seq", "6", "--type", "node_failed", "--node-id", "fetch", "-o", "table"]
    table = call("execution", "events", EXECUTION_ID, *words).out.splitlines()
    assert table[1].endswith("NODE_STARTED  fetch  attempt=2 workerId=w\\u001b[31m  user:ann")
    assert table[2].endswith("NODE_FAILED   fetch  attempt=2 error=A: b            user:ann")
    monkeypatch.setattr("pyoco_client.cli.display.output.terminal_width", lambda: 70)
    narrow = call("execution", "events", EXECUTION_ID, *words).out.splitlines()
    assert narrow[0].split() == ["SEQ", "AT", "TYPE", "NODE", "DETAIL"]
    query = {"afterSeq": ["6"], "type": ["NODE_FAILED"], "nodeId": ["fetch"], "limit": ["200"]}
    assert gateway.last_query() == query
    assert call("execution", "events", EXECUTION_ID, "-o", "name").out == "7\n8\n"


def test_many_executions_are_cancelled_and_a_failure_is_told(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer(f"POST {PATH}/cancel", 202, answer("CancelExecution"))
    gone = problem("EXECUTION_NOT_FOUND", "0146")
    gateway.answer(f"POST /executions/{OTHER_ID}/cancel", 404, gone)
    ids = io.TextIOWrapper(io.BytesIO(f"{OTHER_ID}\n{EXECUTION_ID}\n".encode()))
    monkeypatch.setattr(sys, "stdin", ids)
    done = call("execution", "cancel", "-", "-o", "name")
    assert (done.code, done.out) == (1, f"{EXECUTION_ID}\n")
    assert "ERR-PYOCO-0146" in done.err


@pytest.mark.parametrize("command", ["cancel", "archive"])
def test_the_answer_for_stdin_is_a_list_also_for_one_execution(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    gateway.answer(f"POST {PATH}/{command}", 202, answer("SomeCommand"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{EXECUTION_ID}\n"))
    assert call("execution", command, "-").json() == [answer("SomeCommand")]
    assert call("execution", command, EXECUTION_ID).json() == answer("SomeCommand")


@pytest.mark.parametrize("command", ["cancel", "archive"])
def test_an_error_about_the_only_execution_on_stdin_leaves_an_empty_list(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    gateway.answer(f"POST {PATH}/{command}", 404, problem("EXECUTION_NOT_FOUND", "0146"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{EXECUTION_ID}\n"))
    done = call("execution", command, "-")
    assert (done.code, done.json()) == (1, [])
    assert "ERR-PYOCO-0146" in done.err


def test_a_rejection_among_several_executions_names_its_execution(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer(f"POST {PATH}/archive", 409, rejection("EXECUTION_NOT_TERMINAL"))
    gateway.answer(f"POST /executions/{OTHER_ID}/archive", 202, answer("ArchiveExecution"))
    done = call("execution", "archive", EXECUTION_ID, OTHER_ID)
    assert done.code == 1
    assert f"  execution id: {EXECUTION_ID}\n" in done.err
    assert OTHER_ID not in done.err


def test_a_cancel_can_wait_for_the_end(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"POST {PATH}/cancel", 202, answer("CancelExecution"))
    gateway.answer(f"GET {PATH}/stream", text=told_end("CANCELED", 9), content_type=SSE)
    gateway.answer(GET, 200, view("CANCELED", 9, endedAt=LATER))
    done = call("execution", "cancel", EXECUTION_ID, "--wait", "-o", "status")
    assert (done.code, done.out) == (0, f"CANCELED\t{EXECUTION_ID}\n")


def test_a_cancel_that_takes_too_long_exits_with_1(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"POST {PATH}/cancel", 202, answer("CancelExecution"))
    gateway.answer(GET, 200, view(cancelRequestedAt=AT))
    done = call("execution", "cancel", EXECUTION_ID, "--wait", "--timeout-sec", "0.2")
    assert (done.code, done.err) == (1, f"execution {EXECUTION_ID} is ACTIVE after 0.2 s\n")
    assert done.json()["status"] == "ACTIVE"
    assert call("execution", "cancel", EXECUTION_ID, "--timeout-sec", "3").code == 1
