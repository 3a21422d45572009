"""The routes that read an execution, its events and its log."""

import hashlib
import json
import logging

import anyio
import httpx
import pytest

from execution_requests import completed, created, post, refusal
from key_admin import Keyed, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.executions import views
from pyoco_protocol.executions.commits import chain_start, event_id
from pyoco_protocol.http.executions import (
    EventEnvelope,
    EventPage,
    ExecutionView,
    LogVerification,
)
from pyoco_testkit.nats_server import NatsServer
from two_tenants import Pair, shown

UNKNOWN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


async def test_an_execution_is_shown_with_its_nodes(gateway: httpx.AsyncClient) -> None:
    path = await completed(gateway)
    answer = await gateway.get(path)
    body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    ExecutionView.model_validate(body)
    assert {**body, "nodes": None, "lastHash": None} == {
        "executionId": path.rpartition("/")[2],
        "status": "COMPLETED",
        "graphId": "order",
        "graphVersion": 1,
        "seq": body["seq"],
        "createdAt": body["createdAt"],
        "createdBy": {"kind": "user", "id": "anonymous"},
        "startedAt": body["createdAt"],
        "updatedAt": body["endedAt"],
        "endedAt": body["endedAt"],
        "deadlineAt": None,
        "cancelRequestedAt": None,
        "failRequestedAt": None,
        "archivedAt": None,
        "labels": ["a", "b"],
        "lastHash": None,
        "nodes": None,
    }
    _, task, _, rejected = body["nodes"]
    assert task == {
        "nodeId": "t",
        "nodeType": "Task",
        "status": "SUCCEEDED",
        "attempt": 1,
        "workerId": "w",
        "readyAt": body["createdAt"],
        "startedAt": task["startedAt"],
        "attemptStartedAt": task["startedAt"],
        "endedAt": body["endedAt"],
        "taken": ["done"],
        "canceledByExecution": False,
    }
    assert rejected == {
        "nodeId": "rejected",
        "nodeType": "Failed",
        "status": "CANCELED",
        "attempt": 0,
        "endedAt": body["endedAt"],
        "cancelReason": "NOT_TAKEN",
        "skipped": True,
        "canceledByExecution": False,
    }


async def test_values_are_shown_on_request(gateway: httpx.AsyncClient) -> None:
    path = await completed(gateway)
    body = (await gateway.get(path, params={"include": "values"})).json()
    assert body["input"] == {"order": 7}
    assert body["nodes"][1]["output"] == {"ok": True, "none": None}
    assert body["result"] == {"t": {"ok": True, "none": None}}


async def test_an_earlier_state_is_shown_byte_by_byte_for_ever(
    gateway: httpx.AsyncClient,
) -> None:
    path = await created(gateway)
    now = await gateway.get(path)
    seq = now.json()["seq"]
    await post(gateway, f"{path}/nodes/t/start")
    then = await gateway.get(path, params={"atSeq": seq})
    assert then.content == now.content
    assert refusal(await gateway.get(path, params={"atSeq": seq + 2})) == (422, "SEQ_OUT_OF_RANGE")


async def test_a_read_waits_for_an_event(gateway: httpx.AsyncClient) -> None:
    path = await created(gateway)
    seq = (await gateway.get(path)).json()["seq"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: post(gateway, f"{path}/nodes/t/start"))
        reached = await gateway.get(path, params={"minSeq": seq + 1, "waitSec": 30})
    assert reached.json()["seq"] == seq + 1
    late = await gateway.get(path, params={"minSeq": seq + 2, "waitSec": 0})
    assert refusal(late) == (503, "SEQ_NOT_REACHED")
    assert late.headers["Retry-After"] == "1"


async def test_a_wait_that_ends_without_the_event_is_not_logged_as_a_failure(
    gateway: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    path = await created(gateway)
    caplog.clear()
    late = await gateway.get(path, params={"minSeq": 999, "waitSec": 0})
    assert refusal(late) == (503, "SEQ_NOT_REACHED")
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_events_come_page_by_page(gateway: httpx.AsyncClient) -> None:
    path = await completed(gateway)
    last_seq = (await gateway.get(path)).json()["seq"]
    found: list[EventEnvelope] = []
    after: int | None = 0
    while after is not None:
        answer = await gateway.get(f"{path}/events", params={"afterSeq": after, "limit": 4})
        body = answer.json()
        assert body.keys() == {"items", "nextAfterSeq", "lastSeq"}
        page = EventPage.model_validate(body)
        assert page.last_seq == last_seq
        found += page.items
        after = page.next_after_seq
    assert [event.seq for event in found] == list(range(1, last_seq + 1))
    execution_id = path.rpartition("/")[2]
    assert [event.event_id for event in found] == [event_id(execution_id, e.seq) for e in found]
    assert {event.correlation_id for event in found} == {"req-81"}

    params = {"type": ["NODE_READY", "NODE_STARTED"], "nodeId": "t"}
    some = (await gateway.get(f"{path}/events", params=params)).json()["items"]
    assert [event["type"] for event in some] == ["NODE_READY", "NODE_STARTED"]


async def test_other_requests_are_served_between_the_events_of_a_large_page(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To encode a page of 8 MB in one go takes almost half a second."""
    path = await created(gateway)
    await post(gateway, f"{path}/nodes/t/start")
    for number in range(10):
        await post(gateway, f"{path}/nodes/t/wait", waitKey=str(number))
        payload = {"text": "x" * 50_000}
        await post(gateway, f"{path}/nodes/t/resume", resumeKey=str(number), payload=payload)
    sizes: list[int] = []
    encode = views._text

    def measured(value: object) -> str:
        text = encode(value)
        sizes.append(len(text))
        return text

    monkeypatch.setattr(views, "_text", measured)
    answer = await gateway.get(f"{path}/events")

    assert len(answer.content) > 500_000
    assert max(sizes) < 60_000
    page = EventPage.model_validate_json(answer.content)
    assert json.loads(answer.content) == page.to_wire()


async def test_anyone_can_check_the_hash_chain(gateway: httpx.AsyncClient) -> None:
    path = await completed(gateway)
    answer = await gateway.get(f"{path}/events/verify")
    result = LogVerification.model_validate(answer.json())
    assert answer.json().keys() == {"valid", "commits", "events", "lastHash"}
    assert (result.valid, result.commits) == (True, 3)

    previous = chain_start(path.rpartition("/")[2])
    for n in range(1, result.commits + 1):
        commit = await gateway.get(f"{path}/commits/{n}")
        assert commit.headers["content-type"] == "application/json"
        assert json.loads(commit.content)["prevHash"] == previous
        previous = hashlib.sha256(commit.content).hexdigest()
    assert previous == result.last_hash == (await gateway.get(path)).json()["lastHash"]
    for n in (0, 4, 999_999_999):
        assert refusal(await gateway.get(f"{path}/commits/{n}")) == (404, "COMMIT_NOT_FOUND")


INVALID = (
    "suffix?query",
    "?atSeq=0",
    "?atSeq=x",
    "?atSeq=-1",
    "?atSeq=1&atSeq=1",
    "?minSeq=0",
    "?atSeq=1&minSeq=1",
    "?minSeq=1&waitSec=31",
    "?minSeq=1&waitSec=0.5",
    "?include=nodes",
    "?includes=values",
    "/events?limit=0",
    "/events?limit=1001",
    "/events?afterSeq=-1",
    "/events?type=NODE_DREAMED",
    "/events?nodeId=",
    "/events?atSeq=1",
    "/events/verify?afterSeq=1",
    "/commits/x",
    "/commits/-1",
    "/commits/1.5",
    "/commits/1?n=1",
    "/stream?afterSeq=x",
    "/stream?afterSeq=1&afterSeq=1",
    "/stream?timeout_sec=1",
)


async def test_an_invalid_parameter_is_refused(gateway: httpx.AsyncClient) -> None:
    for read in INVALID:
        answer = await gateway.get(f"/executions/{UNKNOWN}{read}")
        assert refusal(answer) == (422, "INVALID_REQUEST"), read


READS = ["", "?atSeq=1", "?minSeq=1", "/events", "/events/verify", "/commits/1", "/stream"]


async def test_an_unknown_execution_is_not_found(gateway: httpx.AsyncClient) -> None:
    for execution_id in (UNKNOWN, UNKNOWN.upper(), "none", "%2A", "a.b", "%3E"):
        for read in READS:
            answer = await gateway.get(f"/executions/{execution_id}{read}")
            assert refusal(answer) == (404, "EXECUTION_NOT_FOUND"), (execution_id, read)


async def test_an_execution_of_another_tenant_looks_like_an_unknown_one(pair: Pair) -> None:
    path = await completed(pair.acme.http)
    assert (await pair.acme.http.get(path)).is_success
    # The answers carry the id of the request, unless it names another one.
    headers = {"X-Correlation-Id": "probe"}
    beyond = ("?atSeq=999", "?minSeq=999&waitSec=0", "/commits/99", "/stream?afterSeq=99")
    for read in (*READS, *beyond):
        answers = [
            await pair.globex.http.get(f"{each}{read}", headers=headers)
            for each in (path, f"/executions/{UNKNOWN}")
        ]
        assert refusal(answers[0]) == (404, "EXECUTION_NOT_FOUND"), read
        other, unknown = (
            shown(answer, each, answer.headers["X-Request-ID"])
            for answer, each in zip(answers, (path.rpartition("/")[2], UNKNOWN), strict=True)
        )
        assert other == unknown


async def test_a_read_needs_the_scope_of_reads(keyed: Keyed) -> None:
    http, key_admin = keyed
    writer = await key_admin.issue(KeyScope.EXECUTIONS_WRITE, KeyScope.RUNS_READ)
    await knows(http, writer)
    for read in READS:
        path = f"/executions/{UNKNOWN}{read}"
        answer = await http.get(path, headers=writer.headers)
        assert refusal(answer) == (403, "FORBIDDEN")
        assert answer.json()["error"]["details"]["scope"] == "executions:read"
        assert refusal(await http.get(path)) == (401, "UNAUTHENTICATED")


async def test_a_read_without_the_broker_is_to_be_repeated(
    gateway: httpx.AsyncClient, nats_server: NatsServer
) -> None:
    path = await completed(gateway)
    assert (await gateway.get(path)).is_success
    nats_server.kill()
    for read in READS:
        answer = await gateway.get(f"{path}{read}")
        assert refusal(answer) == (503, "BROKER_UNAVAILABLE")
        assert answer.headers["Retry-After"]


async def test_the_description_has_each_parameter_once(gateway: httpx.AsyncClient) -> None:
    paths = (await gateway.get("/openapi.json")).json()["paths"]
    for path, operations in paths.items():
        if path.startswith("/executions/{execution_id}") and "get" in operations:
            names = [each["name"] for each in operations["get"]["parameters"]]
            assert len(names) == len(set(names))
            assert "execution_id" in names
