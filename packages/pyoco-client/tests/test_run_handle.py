"""Handles of runs against an HTTP server that answers as a gateway was recorded to."""

import json
import math
import time
from typing import Any

import pytest

from pyoco_client import (
    BrokerUnavailableError,
    Client,
    GatewayUnreachableError,
    RunCancelled,
    RunFailed,
    RunNotFoundError,
    RunStatus,
    UnexpectedAnswerError,
    WaitTimeoutError,
)
from recorded_gateway import (
    COMPLETED,
    GET,
    HEARTBEAT,
    RUN_ID,
    RUNNING,
    SSE,
    WATCH,
    Gateway,
    problem,
    snapshot,
)

LOGS = f"GET /runs/{RUN_ID}/logs"


def test_a_watch_goes_on_after_the_last_event_it_has_seen(gateway: Gateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE, missing_bytes=100)
    gateway.answer(WATCH, 503, problem("0003"))
    gateway.answer(WATCH, text=HEARTBEAT + snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        states = [run.status for run in client.run(RUN_ID).watch(include="records")]
    assert states == [RunStatus.RUNNING, RunStatus.COMPLETED]
    assert [sent.headers.get("Last-Event-ID") for sent in gateway.requests] == [None, "7", "7"]
    assert "include=records" in gateway.requests[0].target


def test_a_state_that_is_told_twice_is_passed_on_once(gateway: Gateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE)
    gateway.answer(WATCH, text=snapshot(RUNNING, 7) + snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        assert len([*client.run(RUN_ID).watch()]) == 2


def test_heartbeats_are_told_to_those_who_want_them(gateway: Gateway) -> None:
    text = snapshot(RUNNING, 7) + HEARTBEAT + "event: newer\ndata: {}\n\n" + snapshot(COMPLETED, 9)
    gateway.answer(WATCH, text=text, content_type=SSE)
    with Client(gateway.url) as client:
        events = [*client.run(RUN_ID).events()]
    assert [event.kind for event in events] == ["snapshot", "heartbeat", "snapshot"]
    assert [event.id for event in events] == ["7", None, "9"]


def test_a_watch_of_a_run_that_is_deleted_says_so(gateway: Gateway) -> None:
    gone = f'event: gone\ndata: {{"run_id":"{RUN_ID}","ts":1.0}}\n\n'
    gateway.answer(WATCH, text=snapshot(RUNNING, 7) + gone, content_type=SSE)
    with Client(gateway.url) as client, pytest.raises(RunNotFoundError):
        list(client.run(RUN_ID).watch())


def test_where_there_are_too_many_streams_a_run_is_looked_at_instead(gateway: Gateway) -> None:
    gateway.answer(WATCH, 429, problem("0104"), headers={"Retry-After": "60"})
    gateway.answer(GET, 200, RUNNING)
    gateway.answer(GET, 200, RUNNING)
    gateway.answer(GET, 200, COMPLETED)
    with Client(gateway.url) as client:
        states = [run.status for run in client.run(RUN_ID).watch()]
    assert states == [RunStatus.RUNNING, RunStatus.COMPLETED]
    assert len([sent for sent in gateway.requests if "/watch" in sent.target]) == 1


def test_looking_at_a_run_is_no_faster_than_the_gateway_asks(gateway: Gateway) -> None:
    gateway.answer(GET, 429, problem("0104"), headers={"Retry-After": "1"})
    gateway.answer(GET, 200, COMPLETED)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).wait(timeout=1.9).is_over
    assert len(gateway.requests) == 2


def test_a_watch_gives_up_when_nobody_has_answered_for_long(gateway: Gateway) -> None:
    gateway.answer(WATCH, 503, problem("0003"))
    with (
        Client(gateway.url, patience=0.5) as client,
        pytest.raises(BrokerUnavailableError),
    ):
        list(client.run(RUN_ID).watch())
    assert len(gateway.requests) > 1


@pytest.mark.parametrize(
    ("text", "content_type"),
    [("<html/>", "text/html"), ("event: snapshot\ndata: {\n\n", SSE)],
)
def test_a_stream_that_no_gateway_sends_is_named_as_such(
    gateway: Gateway, text: str, content_type: str
) -> None:
    gateway.answer(WATCH, text=text, content_type=content_type)
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError):
        list(client.run(RUN_ID).watch())


def test_a_wait_ends_on_time_though_the_run_does_not(gateway: Gateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE)
    gateway.answer(GET, 200, RUNNING)
    with Client(gateway.url) as client:
        began = time.monotonic()
        with pytest.raises(WaitTimeoutError) as caught:
            client.run(RUN_ID).wait(timeout=2.5)
        assert 2.4 <= time.monotonic() - began < 10
    assert caught.value.last_status == "RUNNING"


def test_a_wait_may_be_without_end(gateway: Gateway) -> None:
    gateway.answer(WATCH, text=snapshot(COMPLETED, 1), content_type=SSE)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).wait(timeout=math.inf).status is RunStatus.COMPLETED


def test_a_wait_without_a_word_tells_why(gateway: Gateway) -> None:
    gateway.answer(GET, 503, problem("0003"))
    with Client(gateway.url) as client, pytest.raises(WaitTimeoutError) as caught:
        client.run(RUN_ID).wait(timeout=0.3)
    assert isinstance(caught.value.__cause__, BrokerUnavailableError)


def test_a_result_is_what_the_last_tasks_returned(gateway: Gateway) -> None:
    gateway.answer(WATCH, text=snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).result() == {"greet": "Hi"}


@pytest.mark.parametrize(("status", "kind"), [("FAILED", RunFailed), ("CANCELLED", RunCancelled)])
def test_a_run_without_a_result_is_raised_with_its_snapshot(
    gateway: Gateway, status: str, kind: type[RunFailed | RunCancelled]
) -> None:
    ended = {**RUNNING, "status": status, "error": "ValueError: no", "cancel_reason": "late"}
    gateway.answer(WATCH, text=snapshot(ended, 9), content_type=SSE)
    with Client(gateway.url) as client, pytest.raises(kind) as caught:
        client.run(RUN_ID).result()
    assert caught.value.run.status == status


def test_a_log_is_read_page_by_page_to_where_the_run_is_now(gateway: Gateway) -> None:
    gateway.answer(LOGS, 200, page("a", "b", cursor="5.0"))
    gateway.answer(LOGS, 200, page(cursor="9.0"))
    gateway.answer(LOGS, 200, page("c", cursor="10.0"))
    gateway.answer(LOGS, 200, page(cursor="10.0"))
    with Client(gateway.url) as client:
        lines = [line.text for line in client.run(RUN_ID).logs(task="greet")]
    assert lines == ["a", "b", "c"]
    assert len(gateway.requests) == 4
    assert "task=greet" in gateway.requests[-1].target


def test_a_log_that_is_followed_goes_on_where_it_broke_off(gateway: Gateway) -> None:
    first = f"event: log\nid: 5\ndata: {json.dumps(page('a'))}\n\n"
    gateway.answer(LOGS, text=first, content_type=SSE, missing_bytes=1)
    second = f"event: log\nid: 6\ndata: {json.dumps(page('b'))}\n\nevent: end\ndata: {{}}\n\n"
    gateway.answer(LOGS, text=second, content_type=SSE)
    with Client(gateway.url) as client:
        assert [line.text for line in client.run(RUN_ID).logs(follow=True)] == ["a", "b"]
    assert gateway.requests[1].headers["Last-Event-ID"] == "5"


def page(*texts: str, cursor: str | None = None) -> dict[str, Any]:
    lines = [
        {"seq": seq, "ts": 1.0, "attempt": 1, "task": "greet", "stream": "stdout", "text": text}
        for seq, text in enumerate(texts)
    ]
    return {"run_id": RUN_ID, "items": lines, "next_cursor": cursor}


def test_a_cancel_is_repeated_and_waits_if_asked_to(gateway: Gateway) -> None:
    route = f"POST /runs/{RUN_ID}/cancel"
    gateway.answer(route, hang_up=True)
    gateway.answer(route, 200, {**RUNNING, "status": "CANCELLING"})
    ended = {**RUNNING, "status": "CANCELLED", "updated_at": 3.0}
    gateway.answer(WATCH, text=snapshot(ended, 9), content_type=SSE)
    with Client(gateway.url) as client:
        run = client.run(RUN_ID).cancel(wait=True, reason="enough")
    assert run.status is RunStatus.CANCELLED
    assert json.loads(gateway.requests[1].body) == {"reason": "enough"}


def test_a_delete_is_not_repeated(gateway: Gateway) -> None:
    gateway.answer(f"DELETE /runs/{RUN_ID}", 204)
    gateway.answer(f"DELETE /runs/{RUN_ID}", hang_up=True)
    with Client(gateway.url) as client:
        client.run(RUN_ID).delete()
        with pytest.raises(GatewayUnreachableError):
            client.run(RUN_ID).delete()
    assert len(gateway.requests) == 2
