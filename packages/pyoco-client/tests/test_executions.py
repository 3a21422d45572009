"""Executions, graphs and waits against recorded answers of a gateway."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from execution_answers import (
    AT,
    EXECUTION_ID,
    GET,
    HASH,
    OTHER_ID,
    PATH,
    answer,
    event,
    node,
    problem,
    rejection,
    view,
)
from pyoco_client import (
    AsyncClient,
    Client,
    CommandRejectedError,
    Execution,
    ExecutionBusyError,
    ExecutionHandle,
    ExecutionNotFoundError,
    GraphInvalidError,
    NodeStatus,
    OutcomeUnknownError,
    SeqNotReachedError,
    UnexpectedAnswerError,
)
from pyoco_testkit.recorded_gateway import RecordedGateway

CREATED = answer("CreateExecution", graphId="order-intake", graphVersion=3)


def bodies(gateway: RecordedGateway) -> list[Any]:
    return [json.loads(sent.body) for sent in gateway.requests if sent.body]


def keys(gateway: RecordedGateway) -> list[str]:
    return [sent.headers["X-Idempotency-Key"] for sent in gateway.requests]


def test_a_creation_is_repeated_with_one_key_until_it_is_answered(
    gateway: RecordedGateway,
) -> None:
    gateway.answer("POST /executions", hang_up=True)
    for code, number in [("OUTCOME_UNKNOWN", "0159"), ("EXECUTION_BUSY", "0160")]:
        gateway.answer("POST /executions", 503, problem(code, number))
    gateway.answer("POST /executions", 502, text="<html/>", content_type="text/html")
    gateway.answer("POST /executions", 200, CREATED, headers={"Idempotency-Replayed": "true"})
    with Client(gateway.url) as client:
        handle = client.executions.create("order-intake", {"orderId": 1}, labels=["vip"])
    assert (handle.id, handle.is_replay) == (EXECUTION_ID, True)
    assert handle.accepted is not None
    assert handle.accepted.graph_version == 3
    assert len(gateway.requests) == 5
    assert len(set(keys(gateway))) == 1
    fields = {"graphId": "order-intake", "input": {"orderId": 1}, "labels": ["vip"], "start": True}
    assert bodies(gateway) == [fields] * 5


def test_two_creations_have_two_keys(gateway: RecordedGateway) -> None:
    gateway.answer("POST /executions", 202, CREATED)
    with Client(gateway.url) as client:
        assert not client.executions.create("order-intake").is_replay
        client.executions.create("order-intake", start=False)
        client.executions.create("order-intake", idempotency_key="mine")
    assert len(set(keys(gateway))) == 3
    assert keys(gateway)[2] == "mine"
    assert bodies(gateway)[1] == {"graphId": "order-intake", "start": False}


COMMANDS: list[tuple[str, Callable[[ExecutionHandle], object], dict[str, Any]]] = [
    ("start", lambda each: each.start(), {}),
    ("cancel", lambda each: each.cancel(reason="why"), {"reason": "why"}),
    ("archive", lambda each: each.archive(), {}),
    (
        "nodes/n/start",
        lambda each: each.node("n").start(attempt=1, worker_id="w"),
        {"attempt": 1, "workerId": "w"},
    ),
    (
        "nodes/n/progress",
        lambda each: each.node("n").progress(40, "half", metrics={"rows": 7}),
        {"progress": 40, "message": "half", "metrics": {"rows": 7}},
    ),
    (
        "nodes/n/wait",
        lambda each: each.node("n").wait(wait_key="k", prompt={"text": "?"}, timeout_sec=60),
        {"waitKey": "k", "prompt": {"text": "?"}, "timeoutSec": 60},
    ),
    (
        "nodes/n/resume",
        lambda each: each.node("n").resume({"ok": True}, resume_key="k"),
        {"payload": {"ok": True}, "resumeKey": "k"},
    ),
    (
        "nodes/n/resume-request",
        lambda each: each.node("n").request_resume(comment="fine"),
        {"comment": "fine"},
    ),
    (
        "nodes/n/success",
        lambda each: each.node("n").succeed({"rows": 7}, attempt=2),
        {"output": {"rows": 7}, "attempt": 2},
    ),
    (
        "nodes/n/fail",
        lambda each: each.node("n").fail("NO", "no rows", detail={"a": 1}, retryable=False),
        {"error": {"code": "NO", "message": "no rows", "detail": {"a": 1}}, "retryable": False},
    ),
    ("nodes/n/fail", lambda each: each.node("n").fail(), {}),
]


@pytest.mark.parametrize(("route", "send", "body"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_a_command_is_sent_to_its_route_and_repeated_with_its_key(
    gateway: RecordedGateway,
    route: str,
    send: Callable[[ExecutionHandle], object],
    body: dict[str, Any],
) -> None:
    gateway.answer(f"POST {PATH}/{route}", hang_up=True)
    gateway.answer(f"POST {PATH}/{route}", 202, answer("Some"))
    with Client(gateway.url) as client:
        send(client.executions.handle(EXECUTION_ID))
    assert bodies(gateway) == [body] * 2
    assert len(set(keys(gateway))) == 1


def test_a_command_respects_retry_after(gateway: RecordedGateway) -> None:
    busy = problem("EXECUTION_BUSY", "0160")
    gateway.answer(f"POST {PATH}/start", 503, busy, headers={"Retry-After": "1"})
    gateway.answer(f"POST {PATH}/start", 202, answer("StartExecution"))
    began = time.monotonic()
    with Client(gateway.url) as client:
        assert client.executions.handle(EXECUTION_ID).start().effect == "APPLIED"
    assert time.monotonic() - began >= 1


def test_a_command_is_not_repeated_after_the_deadline(gateway: RecordedGateway) -> None:
    gateway.answer(f"POST {PATH}/start", 503, problem("OUTCOME_UNKNOWN", "0159"))
    with Client(gateway.url, deadline=0.5) as client, pytest.raises(OutcomeUnknownError):
        client.executions.handle(EXECUTION_ID).start()
    busy = problem("EXECUTION_BUSY", "0160")
    gateway.answer(f"POST {PATH}/archive", 503, busy, headers={"Retry-After": "60"})
    with Client(gateway.url) as client, pytest.raises(ExecutionBusyError) as caught:
        client.executions.handle(EXECUTION_ID).archive()
    assert caught.value.retry_after_sec == 60


def test_a_rejected_command_is_sent_once(gateway: RecordedGateway) -> None:
    gateway.answer(f"POST {PATH}/nodes/n/success", 409, rejection("STALE_ATTEMPT"))
    with Client(gateway.url) as client, pytest.raises(CommandRejectedError) as caught:
        client.executions.handle(EXECUTION_ID).node("n").succeed({})
    assert caught.value.reason == "STALE_ATTEMPT"
    assert len(gateway.requests) == 1


def test_the_state_is_typed_and_keeps_newer_fields(gateway: RecordedGateway) -> None:
    body = view(newer=[1], nodes=[node("fetch", "WAITING", waitKey="k", odd=True)])
    gateway.answer(GET, 200, body)
    with Client(gateway.url) as client:
        execution = client.executions.get(EXECUTION_ID)
    fetch = execution.node("fetch")
    assert fetch is not None
    assert (fetch.status, fetch.wait_key) == (NodeStatus.WAITING, "k")
    assert execution.node("other") is None
    assert not execution.is_over
    assert execution.as_dict() == body


def test_a_state_may_leave_out_what_has_no_value(gateway: RecordedGateway) -> None:
    body = {name: value for name, value in view().items() if value is not None}
    gateway.answer(GET, 200, body)
    with Client(gateway.url) as client:
        assert client.executions.get(EXECUTION_ID).ended_at is None


def test_a_state_that_cannot_be_read_is_an_unexpected_answer(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, view(status="DREAMING"))
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError, match="status"):
        client.executions.get(EXECUTION_ID)


def test_the_state_can_be_that_of_an_event_or_with_values(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, view(input={"a": 1}))
    with Client(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        assert handle.get(at_seq=3, include_values=True).input == {"a": 1}
        assert gateway.last_query() == {"atSeq": ["3"], "include": ["values"]}
        handle.get(min_seq=9, wait_sec=20)
        assert gateway.last_query() == {"minSeq": ["9"], "waitSec": ["20"]}


def test_a_wait_for_an_event_lasts_as_long_as_the_caller_asked(gateway: RecordedGateway) -> None:
    late = problem("SEQ_NOT_REACHED", "0163", minSeq=9, lastSeq=7)
    gateway.answer(GET, 503, late, headers={"Retry-After": "1"})
    with Client(gateway.url) as client, pytest.raises(SeqNotReachedError):
        client.executions.get(EXECUTION_ID, min_seq=9, wait_sec=1)
    assert len(gateway.requests) == 1


def test_an_unknown_execution_is_not_found(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 404, problem("EXECUTION_NOT_FOUND", "0146"))
    with Client(gateway.url) as client, pytest.raises(ExecutionNotFoundError):
        client.executions.get(EXECUTION_ID)


def item(execution_id: str) -> dict[str, Any]:
    return {
        "executionId": execution_id,
        "status": "ACTIVE",
        "graphId": "order-intake",
        "graphVersion": 3,
        "labels": [],
        "seq": 7,
        "createdAt": AT,
        "updatedAt": AT,
        "counts": {"RUNNING": 1},
        "openNodes": ["fetch"],
    }


def test_executions_are_listed_by_page_or_all(gateway: RecordedGateway) -> None:
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": "c"})
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": "c"})
    gateway.answer("GET /executions", 200, {"items": [item(OTHER_ID)], "nextCursor": None})
    with Client(gateway.url) as client:
        (first,) = client.executions.list(status="ACTIVE", limit=1)
        assert (first.execution_id, first.counts[NodeStatus.RUNNING]) == (EXECUTION_ID, 1)
        assert gateway.last_query() == {"status": ["ACTIVE"], "limit": ["1"]}
        found = [each.execution_id for each in client.executions.iter(label=["a", "b"])]
    assert found == [EXECUTION_ID, OTHER_ID]
    assert gateway.last_query() == {
        "label": ["a", "b"],
        "order": ["created"],
        "cursor": ["c"],
        "limit": ["200"],
    }


def test_events_of_all_pages_are_yielded(gateway: RecordedGateway) -> None:
    route = f"GET {PATH}/events"
    first = [event(1, "EXECUTION_CREATED"), event(2, "NODE_READY", nodeId="fetch")]
    gateway.answer(route, 200, {"items": first, "nextAfterSeq": 2, "lastSeq": 4})
    # With a filter a page may be empty although there are more events.
    gateway.answer(route, 200, {"items": [], "nextAfterSeq": 3, "lastSeq": 4})
    last = [event(4, "NODE_STARTED", nodeId="fetch", attempt=1)]
    gateway.answer(route, 200, {"items": last, "nextAfterSeq": None, "lastSeq": 4})
    with Client(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        found = [*handle.events(types=["NODE_READY"], node_id="fetch")]
    assert [(each.seq, each.node_id) for each in found] == [(1, None), (2, "fetch"), (4, "fetch")]
    assert gateway.last_query() == {
        "afterSeq": ["3"],
        "limit": ["200"],
        "type": ["NODE_READY"],
        "nodeId": ["fetch"],
    }


def test_a_log_is_verified_and_its_commits_are_bytes(gateway: RecordedGateway) -> None:
    checked = {"valid": False, "commits": 2, "events": 9, "lastHash": HASH, "firstBadCommit": 3}
    gateway.answer(f"GET {PATH}/events/verify", 200, checked)
    gateway.answer(f"GET {PATH}/commits/2", 200, text='{"v": 1,  "n": 2}')
    with Client(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        assert handle.verify().first_bad_commit == 3
        assert handle.commit(2) == b'{"v": 1,  "n": 2}'


GRAPH = {"graphId": "g", "version": 2, "hash": HASH, "at": AT, "nodes": 2, "edges": 1}


def test_a_graph_is_stored_validated_and_read(gateway: RecordedGateway) -> None:
    stored = {"graphId": "g", "version": 2, "hash": HASH, "warnings": []}
    gateway.answer("PUT /graphs/g", 201, stored)
    gateway.answer("PUT /graphs/g", 200, stored)
    fault = {"code": "CYCLE", "where": "nodes", "message": "a, b"}
    report = {"valid": False, "problems": [fault], "warnings": []}
    gateway.answer("POST /graphs/validate", 200, report)
    gateway.answer("GET /graphs/g", 200, {**GRAPH, "document": {"nodes": []}})
    gateway.answer("GET /graphs/g/versions/1", 200, {**GRAPH, "version": 1, "document": {}})
    with Client(gateway.url) as client:
        new = client.graphs.put("g", "nodes: []\nedges: []\n", if_match=1)
        assert (new.version, new.is_new, new.as_dict()) == (2, True, stored)
        assert not client.graphs.put("g", {"nodes": []}).is_new
        assert client.graphs.validate({"nodes": []}).problems[0].code == "CYCLE"
        assert client.graphs.get("g").document == {"nodes": []}
        assert client.graphs.get("g", 1).version == 1
    sent = [(each.headers["Content-Type"], each.body) for each in gateway.requests[:3]]
    assert sent == [
        ("application/yaml", b"nodes: []\nedges: []\n"),
        ("application/json", b'{"nodes": []}'),
        ("application/json", b'{"nodes": []}'),
    ]
    assert gateway.requests[0].headers["If-Match"] == "1"


def test_an_invalid_graph_is_refused_with_all_problems(gateway: RecordedGateway) -> None:
    faults = [{"code": "END_MISSING", "where": "nodes", "message": "has no Success"}] * 2
    gateway.answer("PUT /graphs/g", 422, problem("GRAPH_INVALID", "0154", problems=faults))
    with Client(gateway.url) as client, pytest.raises(GraphInvalidError) as caught:
        client.graphs.put("g", {})
    assert list(caught.value.problems) == faults


def test_graphs_and_their_versions_are_listed(gateway: RecordedGateway) -> None:
    gateway.answer("GET /graphs", 200, {"items": [GRAPH], "nextCursor": "g"})
    gateway.answer("GET /graphs", 200, {"items": [GRAPH], "nextCursor": None})
    versions = {"items": [GRAPH, {**GRAPH, "version": 1}], "nextCursor": None}
    gateway.answer("GET /graphs/g/versions", 200, versions)
    with Client(gateway.url) as client:
        assert len([*client.graphs.iter()]) == 2
        assert len(client.graphs.list(limit=1)) == 1
        assert [each.version for each in client.graphs.versions("g")] == [2, 1]


def open_node(**more: Any) -> dict[str, Any]:
    fields = {"executionId": EXECUTION_ID, "graphId": "g", "nodeId": "payment", "since": AT}
    return {**fields, "attempt": 1, **more}


def test_waits_and_ready_tasks_are_listed(gateway: RecordedGateway) -> None:
    wait = open_node(waitKey="k", approvals={"needed": 2, "given": 1}, prompt={"text": "?"})
    gateway.answer("GET /waits", 200, {"items": [wait], "nextCursor": None, "total": 1})
    gateway.answer(
        "GET /ready-tasks", 200, {"items": [open_node()], "nextCursor": None, "total": 9}
    )
    with Client(gateway.url) as client:
        (found,) = client.waits.list(graph_id="g", approver="ann")
        assert found.approvals is not None
        assert (found.approvals.needed, found.approvals.given) == (2, 1)
        assert gateway.last_query() == {"graphId": ["g"], "approver": ["ann"]}
        assert [each.node_id for each in client.waits.iter()] == ["payment"]
        ready = client.ready_tasks("g", wait_sec=0)
        assert (ready.total, ready.items[0].attempt) == (9, 1)
        assert gateway.last_query() == {"graphId": ["g"], "waitSec": ["0"]}


def test_an_approval_sends_the_key_of_the_wait(gateway: RecordedGateway) -> None:
    waiting = node("payment", "WAITING", "Wait", waitKey="order-1")
    gateway.answer(GET, 200, view(nodes=[{**waiting, "approvals": {"needed": 2, "given": 0}}]))
    gateway.answer(f"POST {PATH}/nodes/payment/resume-request", 202, answer("RequestResumeNode"))
    with Client(gateway.url) as client:
        client.waits.approve(EXECUTION_ID, "payment", {"ok": True}, comment="fine")
    assert bodies(gateway) == [{"payload": {"ok": True}, "comment": "fine", "resumeKey": "order-1"}]


def test_the_approval_of_a_wait_without_approvals_resumes_it(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, view(nodes=[node("payment", "WAITING", "Wait", waitKey="order-1")]))
    gateway.answer(f"POST {PATH}/nodes/payment/resume", 202, answer("ResumeNode"))
    with Client(gateway.url) as client:
        client.waits.approve(EXECUTION_ID, "payment")
        with pytest.raises(ValueError, match="keeps no comment"):
            client.waits.approve(EXECUTION_ID, "payment", comment="lost")
    assert bodies(gateway) == [{"resumeKey": "order-1"}]


def test_a_rejected_wait_is_not_retried(gateway: RecordedGateway) -> None:
    gateway.answer(f"POST {PATH}/nodes/payment/fail", 202, answer("FailNode"))
    with Client(gateway.url) as client:
        client.waits.reject(EXECUTION_ID, "payment", "not in stock")
    error = {"code": "REJECTED", "message": "not in stock"}
    assert bodies(gateway) == [{"error": error, "retryable": False}]


async def test_the_async_client_creates_reads_and_approves(gateway: RecordedGateway) -> None:
    gateway.answer("POST /executions", hang_up=True)
    gateway.answer("POST /executions", 202, CREATED)
    gateway.answer(GET, 200, view(nodes=[node("payment", "WAITING", "Wait")]))
    gateway.answer(f"POST {PATH}/nodes/payment/resume", 202, answer("ResumeNode"))
    gateway.answer("GET /executions", 200, {"items": [item(EXECUTION_ID)], "nextCursor": None})
    async with AsyncClient(gateway.url) as client:
        handle = await client.executions.create("order-intake")
        assert isinstance(await handle.get(), Execution)
        assert (await client.waits.approve(handle.id, "payment")).command == "ResumeNode"
        assert [each.execution_id async for each in client.executions.iter()] == [EXECUTION_ID]
