"""Each row of the table of commands: its route, its fields, its effect, its repeats."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from execution_requests import refusal
from executions.commands.command_client import LINE, TASK, Commands, commits_of, outcome, reason
from pyoco_protocol.canonical import canonical_json
from pyoco_testkit.graph_documents import JsonObject, line

if TYPE_CHECKING:
    from conftest import Store

Steps = tuple[tuple[str, JsonObject], ...]

RETRIED = line({**TASK, "retry": {"maxAttempts": 2}}, {"id": "next", "type": "Task"})
TWO_TASKS = line(TASK, {"id": "next", "type": "Task"})
WAIT = line({"id": "w", "type": "Wait", "wait": {"key": "k-${input.n}"}}, TASK)
REPORT: JsonObject = {"attempt": 1, "workerId": "w1"}
STARTED: Steps = (("nodes/t/start", REPORT),)
WAITING: Steps = (*STARTED, ("nodes/t/wait", {"waitKey": "k"}))


@dataclass(frozen=True)
class Row:
    """A command in a state in which it is accepted, with all of its fields."""

    name: str
    rest: str
    body: JsonObject
    events: tuple[str, ...]
    # The effect, or the reason of the rejection, under another key.
    repeated: str
    document: JsonObject = field(default_factory=lambda: LINE)
    before: Steps = ()
    start: bool = True


ROWS = {
    "2 StartExecution": Row(
        "StartExecution", "start", {}, ("EXECUTION_STARTED",), "NONE", start=False
    ),
    "3 CancelExecution": Row(
        "CancelExecution", "cancel", {"reason": "r"}, ("EXECUTION_CANCEL_REQUESTED",), "NONE"
    ),
    "4 ArchiveExecution": Row(
        "ArchiveExecution",
        "archive",
        {"reason": "r"},
        ("EXECUTION_ARCHIVED",),
        "NONE",
        before=(("cancel", {}),),
    ),
    "6 StartNode": Row("StartNode", "nodes/t/start", REPORT, ("NODE_STARTED",), "NONE"),
    "6 StartNode without a worker": Row(
        "StartNode", "nodes/t/start", {}, ("NODE_STARTED",), "NODE_ALREADY_STARTED"
    ),
    "7 ReportNodeProgress": Row(
        "ReportNodeProgress",
        "nodes/t/progress",
        {"progress": 40.5, "message": "m", "metrics": {"rows": 7}, **REPORT},
        ("NODE_PROGRESS_REPORTED",),
        # One report a second is kept.
        "NONE",
        before=STARTED,
    ),
    "8 PutNodeWaiting": Row(
        "PutNodeWaiting",
        "nodes/t/wait",
        {"waitKey": "k", "prompt": {"text": "?"}, "timeoutSec": 60, **REPORT},
        ("NODE_WAITING",),
        "NONE",
        before=STARTED,
    ),
    "9 RequestResumeNode": Row(
        "RequestResumeNode",
        "nodes/t/resume-request",
        {"resumeKey": "k", "comment": "c", "payload": {"a": 1}},
        ("NODE_RESUME_REQUESTED",),
        "APPLIED",
        before=WAITING,
    ),
    "10 ResumeNode of a Task": Row(
        "ResumeNode",
        "nodes/t/resume",
        {"resumeKey": "k", "payload": {"a": 1}},
        ("NODE_RESUMED",),
        "NODE_NOT_WAITING",
        before=WAITING,
    ),
    "10 ResumeNode of a Wait": Row(
        "ResumeNode",
        "nodes/w/resume",
        {"resumeKey": "k-7", "payload": {"a": 1}},
        ("NODE_RESUMED", "NODE_SUCCEEDED"),
        "NODE_TERMINAL",
        document=WAIT,
    ),
    "11 SucceedNode": Row(
        "SucceedNode",
        "nodes/t/success",
        {"output": {"rows": 7}, **REPORT},
        ("NODE_SUCCEEDED",),
        "NODE_TERMINAL",
        document=TWO_TASKS,
        before=STARTED,
    ),
    "12 FailNode": Row(
        "FailNode",
        "nodes/t/fail",
        {
            "error": {"code": "E", "message": "m", "detail": {"a": 1}},
            "retryable": False,
            **REPORT,
        },
        ("NODE_FAILED",),
        "EXECUTION_TERMINAL",
        document=RETRIED,
        before=STARTED,
    ),
    "12 FailNode with a retry": Row(
        "FailNode",
        "nodes/t/fail",
        {"error": {"code": "E"}, "retryable": True, **REPORT},
        ("NODE_FAIL_REPORTED",),
        "STALE_ATTEMPT",
        document=RETRIED,
        before=STARTED,
    ),
    "12 FailNode of a Wait": Row(
        "FailNode",
        "nodes/w/fail",
        {"error": {"code": "NO"}},
        ("NODE_FAILED",),
        "EXECUTION_TERMINAL",
        document=WAIT,
    ),
}


async def prepared(commands: Commands, row: Row) -> str:
    """Return the path of an execution in which the command is accepted."""
    path = await commands.created(row.document, input={"n": 7}, start=row.start)
    return await commands.done(path, *row.before)


def accepted_answer(row: Row, path: str, commit: JsonObject) -> JsonObject:
    """Return the answer to the command of a row that has led to a commit."""
    return {
        "executionId": path.rpartition("/")[2],
        "command": row.name,
        "accepted": True,
        "effect": "APPLIED",
        "correlationId": "c-1",
        "idempotencyKey": "k-1",
        "seq": commit["head"]["seq"],
        "status": commit["head"]["status"],
    }


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_a_command_is_committed_with_its_answer(
    commands: Commands, store: "Store", row: Row
) -> None:
    path = await prepared(commands, row)
    route = f"{path}/{row.rest}"

    answer = await commands.post(route, row.body, "k-1", **{"X-Correlation-Id": "c-1"})

    commit = (await commits_of(store, path))[-1]
    assert answer.status_code == 202, answer.text
    assert answer.json() == accepted_answer(row, path, commit)
    assert "Idempotency-Replayed" not in answer.headers
    assert answer.headers["X-Correlation-Id"] == "c-1"
    expected = {
        "name": row.name,
        "actor": {"kind": "user", "id": "anonymous"},
        "correlationId": "c-1",
        "endpoint": f"POST {route}",
        "idempotencyKey": "k-1",
        "requestHash": sha256(canonical_json(row.body)).hexdigest(),
    }
    if "nodes/" in row.rest:
        expected["nodeId"] = row.rest.split("/")[1]
    assert commit["command"] == expected
    assert commit["answer"] == {"status": 202, "body": answer.json()}
    decided = [each for each in commit["events"] if "cause" not in each]
    assert tuple(each["type"] for each in decided) == row.events
    # Nothing of the request is lost.
    events = canonical_json(commit["events"]).decode()
    for name in ("reason", "message", "metrics", "prompt", "comment", "payload", "output"):
        if name in row.body:
            assert canonical_json({name: row.body[name]}).decode()[1:-1] in events


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_a_repeat_under_the_same_key_gets_the_first_answer(
    commands: Commands, store: "Store", row: Row
) -> None:
    path = await prepared(commands, row)
    route = f"{path}/{row.rest}"
    first = await commands.post(route, row.body, "k-1")
    count = len(await commits_of(store, path))

    again = await commands.post(route, row.body, "k-1", **{"X-Correlation-Id": "other"})

    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    # The answer tells of this request, the body of the first one.
    assert again.headers["X-Correlation-Id"] == "other"
    assert len(await commits_of(store, path)) == count


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_a_repeat_under_another_key_is_decided_anew(
    commands: Commands, store: "Store", row: Row
) -> None:
    path = await prepared(commands, row)
    route = f"{path}/{row.rest}"
    first = await commands.accepted(route, row.body)

    again = await commands.post(route, row.body)

    assert outcome(again) == row.repeated
    if row.repeated == "NONE":
        assert again.status_code == 200
        assert again.json()["seq"] == first["seq"]
        assert "Idempotency-Replayed" not in again.headers


async def test_1_create_execution(commands: Commands, store: "Store") -> None:
    await commands.put_graph()
    body = {"graphId": "g", "graphVersion": 1, "input": {"n": 7}, "labels": ["a"], "start": True}

    answer = await commands.post("/executions", body, "k-1", **{"X-Correlation-Id": "c-1"})

    found = answer.json()
    path = f"/executions/{found['executionId']}"
    (commit,) = await commits_of(store, path)
    assert answer.status_code == 202
    assert answer.headers["Location"] == path
    assert found == {
        "executionId": commit["executionId"],
        "command": "CreateExecution",
        "accepted": True,
        "effect": "APPLIED",
        "correlationId": "c-1",
        "idempotencyKey": "k-1",
        "seq": len(commit["events"]),
        "status": "ACTIVE",
        "graphId": "g",
        "graphVersion": 1,
    }
    decided = [each["type"] for each in commit["events"] if "cause" not in each]
    assert decided == ["EXECUTION_CREATED", *["NODE_CREATED"] * 3, "EXECUTION_STARTED"]
    created = commit["events"][0]["payload"]
    assert (created["input"], created["labels"]) == ({"n": 7}, ["a"])
    assert commit["command"]["endpoint"] == "POST /executions"


async def test_1_create_execution_repeated(commands: Commands, store: "Store") -> None:
    await commands.put_graph()
    first = await commands.post("/executions", {"graphId": "g"}, "k-1")
    again = await commands.post("/executions", {"graphId": "g"}, "k-1")
    other = await commands.post("/executions", {"graphId": "g"}, "k-2")
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert other.status_code == 202
    assert other.headers["Location"] != first.headers["Location"]
    assert len(await store._messages("PYOCO_EXECUTIONS")) == 2


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"graphId": "other"}, 404, "GRAPH_NOT_FOUND"),
        ({"graphId": "g", "graphVersion": 2}, 404, "GRAPH_NOT_FOUND"),
        ({"graphId": "g", "input": {"n": "seven"}}, 422, "INPUT_INVALID"),
        ({"graphId": "g"}, 422, "INPUT_INVALID"),
        ({"graphId": "approved"}, 422, "APPROVALS_NEED_KEYS"),
    ],
)
async def test_1_create_execution_refused(
    commands: Commands, store: "Store", body: JsonObject, status: int, code: str
) -> None:
    schema = {"required": ["n"], "properties": {"n": {"type": "number"}}}
    await commands.put_graph(line(TASK, inputSchema=schema))
    approvals = {"id": "w", "type": "Wait", "wait": {"approvals": 2}}
    await commands.put_graph(line(approvals), "approved")

    assert refusal(await commands.post("/executions", body)) == (status, code)
    assert await store._messages("PYOCO_EXECUTIONS") == []


async def test_1_create_execution_uses_the_latest_version_or_the_one_that_is_named(
    commands: Commands,
) -> None:
    for title in ("one", "two"):
        await commands.put_graph(line(TASK, title=title))
    latest = await commands.accepted("/executions", {"graphId": "g"})
    named = await commands.accepted("/executions", {"graphId": "g", "graphVersion": 1})
    assert (latest["graphVersion"], named["graphVersion"]) == (2, 1)


async def test_4_archive_execution_before_its_end(commands: Commands) -> None:
    path = await commands.created()
    assert reason(await commands.post(f"{path}/archive")) == "EXECUTION_NOT_TERMINAL"


async def test_6_start_node_by_another_worker(commands: Commands) -> None:
    path = await commands.done(await commands.created(), *STARTED)
    answer = await commands.post(f"{path}/nodes/t/start", {"workerId": "w2"})
    assert reason(answer) == "NODE_ALREADY_STARTED"


async def test_12_fail_node_is_retried_by_default(commands: Commands, store: "Store") -> None:
    path = await commands.done(await commands.created(RETRIED), *STARTED, ("nodes/t/fail", {}))
    event = (await commits_of(store, path))[-1]["events"][0]
    assert event["type"] == "NODE_FAIL_REPORTED"
    answer = await commands.post(f"{path}/nodes/t/start", {"attempt": 2})
    assert reason(answer) == "RETRY_NOT_DUE"
    assert answer.json()["error"]["details"]["retryAt"] == event["payload"]["retryAt"]
