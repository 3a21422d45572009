"""Watches of executions against recorded answers of a gateway."""

import time
from typing import Any

import pytest

from execution_answers import (
    EXECUTION_ID,
    GET,
    HEARTBEAT,
    LATER,
    SSE,
    STREAM,
    event,
    problem,
    told,
    told_end,
    told_event,
    told_view,
    view,
)
from pyoco_client import (
    AsyncClient,
    BrokerUnavailableError,
    Client,
    ExecutionNotFoundError,
    ExecutionStatus,
    ExecutionWaitTimeoutError,
    GatewayUnreachableError,
    UnexpectedAnswerError,
)
from pyoco_client.contact import Outage
from pyoco_client.execution_models import ExecutionChange
from pyoco_testkit.recorded_gateway import RecordedGateway

ENDED = view(status="COMPLETED", seq=10, endedAt=LATER)
STARTED = told_view(view(seq=7)) + told_event(8, "NODE_STARTED", nodeId="fetch", attempt=1)
FINISHED = told_event(10, "EXECUTION_COMPLETED", result={}) + told_end("COMPLETED", 10)


EVENTS = f"{GET}/events"


def page(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": items, "nextAfterSeq": None, "lastSeq": 10}


def seen(gateway: RecordedGateway, **options: float) -> list[tuple[str, int]]:
    with Client(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        return [(each.kind, each.seq) for each in handle.watch(**options)]  # type: ignore[arg-type] # the values fit their names


def resumed_after(gateway: RecordedGateway) -> list[str | None]:
    streams = [each for each in gateway.requests if each.target.endswith("/stream")]
    return [each.headers.get("Last-Event-ID") for each in streams]


def test_a_watch_yields_a_snapshot_the_events_and_the_end(gateway: RecordedGateway) -> None:
    newer = told("newer", {"a": 1}) + HEARTBEAT
    gateway.answer(STREAM, text=STARTED + newer + FINISHED, content_type=SSE)
    with Client(gateway.url) as client:
        changes = [*client.executions.handle(EXECUTION_ID).watch()]
    assert [change.kind for change in changes] == ["snapshot", "event", "event", "end"]
    first, started, _, end = changes
    assert first.execution is not None
    assert first.execution.graph_id == "order-intake"
    assert started.event is not None
    assert (started.event.type, started.event.node_id) == ("NODE_STARTED", "fetch")
    assert (end.status, end.seq) == (ExecutionStatus.COMPLETED, 10)
    # The stream of an execution takes no query parameter for its length.
    assert gateway.requests[0].target == f"/executions/{EXECUTION_ID}/stream"


def test_a_watch_resumes_after_the_last_event_it_has_seen(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, text=STARTED, content_type=SSE, missing_bytes=100)
    gateway.answer(STREAM, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(STREAM, hang_up=True)
    goodbye = told_event(9, "NODE_SUCCEEDED", nodeId="fetch") + told("goodbye", {"ts": 1.0})
    gateway.answer(STREAM, text=goodbye, content_type=SSE)
    gateway.answer(STREAM, text=FINISHED, content_type=SSE)
    kinds = [("snapshot", 7), ("event", 8), ("event", 9), ("event", 10), ("end", 10)]
    assert seen(gateway) == kinds
    assert resumed_after(gateway) == [None, "8", "8", "8", "9"]


def test_a_watch_that_is_resumed_after_the_end_yields_the_end(gateway: RecordedGateway) -> None:
    cut = STARTED + told_event(10, "EXECUTION_COMPLETED", result={})
    gateway.answer(STREAM, text=cut, content_type=SSE, missing_bytes=100)
    gateway.answer(STREAM, 204)
    gateway.answer(GET, 200, ENDED)
    assert seen(gateway)[-2:] == [("event", 10), ("end", 10)]
    assert resumed_after(gateway) == [None, "10"]


def test_a_watch_can_begin_after_an_event(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, text=FINISHED, content_type=SSE)
    assert seen(gateway, after_seq=8) == [("event", 10), ("end", 10)]
    assert resumed_after(gateway) == ["8"]


def test_a_watch_polls_after_a_refusal_for_too_many_streams(gateway: RecordedGateway) -> None:
    refusal = problem("TOO_MANY_REQUESTS", "0104")
    gateway.answer(STREAM, 429, refusal, headers={"Retry-After": "60"})
    for state in (view(seq=7), view(seq=7), view(seq=8), ENDED):
        gateway.answer(GET, 200, state)
    gateway.answer(EVENTS, 200, page(event(8, "NODE_STARTED")))
    gateway.answer(EVENTS, 200, page(event(9, "NODE_SUCCEEDED"), event(10, "EXECUTION_COMPLETED")))
    kinds = [("snapshot", 7), ("event", 8), ("event", 9), ("event", 10), ("end", 10)]
    assert seen(gateway) == kinds
    assert len(resumed_after(gateway)) == 1


def test_a_watch_polls_page_by_page_and_ends_after_the_last_one(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, ENDED)
    gateway.answer(EVENTS, 200, page(event(8, "NODE_STARTED"), event(9, "NODE_SUCCEEDED")))
    gateway.answer(EVENTS, 200, page(event(10, "EXECUTION_COMPLETED")))
    kinds = [("event", 8), ("event", 9), ("event", 10), ("end", 10)]
    # Below two seconds there is no stream.
    assert seen(gateway, after_seq=7, timeout=1.9) == kinds
    assert resumed_after(gateway) == []


def test_polling_survives_failures(gateway: RecordedGateway) -> None:
    refusal = problem("TOO_MANY_REQUESTS", "0104")
    gateway.answer(STREAM, 429, refusal, headers={"Retry-After": "60"})
    gateway.answer(GET, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(GET, hang_up=True)
    gateway.answer(GET, 200, ENDED)
    assert seen(gateway) == [("snapshot", 10), ("end", 10)]


def test_a_watch_raises_after_its_patience_without_an_answer(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, 503, problem("BROKER_UNAVAILABLE", "0164"))
    with Client(gateway.url, patience=0.5) as client, pytest.raises(BrokerUnavailableError):
        list(client.executions.handle(EXECUTION_ID).watch())
    assert len(gateway.requests) > 1


def test_a_watch_of_an_unknown_execution_raises_not_found(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, 404, problem("EXECUTION_NOT_FOUND", "0146"))
    with Client(gateway.url) as client, pytest.raises(ExecutionNotFoundError):
        list(client.executions.handle(EXECUTION_ID).watch())


@pytest.mark.parametrize(
    "text",
    ["event: snapshot\ndata: {\n\n", "event: end\ndata: 7\n\n", told("event", {"type": "A"})],
)
def test_an_event_that_cannot_be_read_is_an_unexpected_answer(
    gateway: RecordedGateway, text: str
) -> None:
    gateway.answer(STREAM, text=text, content_type=SSE)
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError, match="cannot be"):
        list(client.executions.handle(EXECUTION_ID).watch())


def test_a_wait_returns_the_state_after_the_end(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, text=STARTED + FINISHED, content_type=SSE)
    gateway.answer(GET, 200, {**ENDED, "result": {"ship": {}}})
    with Client(gateway.url) as client:
        ended = client.executions.handle(EXECUTION_ID).wait(include_values=True)
    assert (ended.status, ended.result) == (ExecutionStatus.COMPLETED, {"ship": {}})
    assert gateway.last_query() == {"include": ["values"]}


def test_a_wait_ends_at_its_timeout_while_the_execution_continues(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(STREAM, text=STARTED, content_type=SSE)
    gateway.answer(GET, 200, view(seq=8))
    with Client(gateway.url) as client:
        began = time.monotonic()
        with pytest.raises(ExecutionWaitTimeoutError) as caught:
            client.executions.handle(EXECUTION_ID).wait(timeout=2.5)
        assert 2.4 <= time.monotonic() - began < 10
    assert caught.value.last_status == "ACTIVE"


def test_a_wait_without_an_answer_has_its_cause(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 503, problem("BROKER_UNAVAILABLE", "0164"))
    with Client(gateway.url) as client, pytest.raises(ExecutionWaitTimeoutError) as caught:
        client.executions.handle(EXECUTION_ID).wait(timeout=0.3)
    assert isinstance(caught.value.__cause__, BrokerUnavailableError)


async def test_the_async_client_watches(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, text=STARTED, content_type=SSE, missing_bytes=100)
    gateway.answer(STREAM, text=FINISHED, content_type=SSE)
    gateway.answer(GET, 200, ENDED)
    async with AsyncClient(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        changes: list[ExecutionChange] = [change async for change in handle.watch()]
        assert [change.kind for change in changes] == ["snapshot", "event", "event", "end"]
        assert (await handle.wait()).is_over


def test_a_watch_tells_each_outage_and_its_end(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, text=STARTED, content_type=SSE, missing_bytes=100)
    gateway.answer(STREAM, hang_up=True)
    # The first two streams have heartbeats, but the gateway has no broker.
    for _ in range(3):
        gateway.answer(STREAM, text=HEARTBEAT, content_type=SSE)
    gateway.answer(EVENTS, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(EVENTS, 503, problem("BROKER_UNAVAILABLE", "0164"))
    gateway.answer(EVENTS, 200, page())
    gateway.answer(STREAM, text=FINISHED, content_type=SSE)
    told_outages: list[Outage | None] = []
    began = time.time()
    with Client(gateway.url) as client:
        handle = client.executions.handle(EXECUTION_ID)
        kinds = [each.kind for each in handle.watch(on_outage=told_outages.append)]
    assert kinds == ["snapshot", "event", "event", "end"]
    lost, back = told_outages
    assert lost is not None
    assert isinstance(lost.error, GatewayUnreachableError)
    assert began - 1 <= lost.since <= time.time()
    assert back is None
    # Nearly always there is no such event.
    asked = [each.target for each in gateway.requests if "/events" in each.target]
    assert asked[0] == f"/executions/{EXECUTION_ID}/events?afterSeq=8&limit=1"


def test_a_refusal_for_too_many_streams_is_no_outage(gateway: RecordedGateway) -> None:
    gateway.answer(STREAM, 429, problem("TOO_MANY_REQUESTS", "0104"), headers={"Retry-After": "60"})
    gateway.answer(GET, 200, ENDED)
    told_outages: list[Outage | None] = []
    with Client(gateway.url) as client:
        list(client.executions.handle(EXECUTION_ID).watch(on_outage=told_outages.append))
    assert told_outages == []
