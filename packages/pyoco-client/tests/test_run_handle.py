"""Run handles against recorded answers of a gateway."""

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
from pyoco_testkit.recorded_answers import (
    COMPLETED,
    GET,
    HEARTBEAT,
    RUN_ID,
    RUNNING,
    SSE,
    WATCH,
    problem,
    snapshot,
)
from pyoco_testkit.recorded_gateway import RecordedGateway

LOGS = f"GET /runs/{RUN_ID}/logs"


def test_a_watch_resumes_after_the_last_event_it_has_seen(gateway: RecordedGateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE, missing_bytes=100)
    gateway.answer(WATCH, 503, problem("0003"))
    gateway.answer(WATCH, text=HEARTBEAT + snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        states = [run.status for run in client.run(RUN_ID).watch(include="records")]
    assert states == [RunStatus.RUNNING, RunStatus.COMPLETED]
    assert [sent.headers.get("Last-Event-ID") for sent in gateway.requests] == [None, "7", "7"]
    assert "include=records" in gateway.requests[0].target


def test_a_repeated_snapshot_is_yielded_once(gateway: RecordedGateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE)
    gateway.answer(WATCH, text=snapshot(RUNNING, 7) + snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        assert len([*client.run(RUN_ID).watch()]) == 2


def test_events_include_heartbeats(gateway: RecordedGateway) -> None:
    text = snapshot(RUNNING, 7) + HEARTBEAT + "event: newer\ndata: {}\n\n" + snapshot(COMPLETED, 9)
    gateway.answer(WATCH, text=text, content_type=SSE)
    with Client(gateway.url) as client:
        events = [*client.run(RUN_ID).events()]
    assert [event.kind for event in events] == ["snapshot", "heartbeat", "snapshot"]
    assert [event.id for event in events] == ["7", None, "9"]


def test_a_watch_of_a_deleted_run_raises_not_found(gateway: RecordedGateway) -> None:
    gone = f'event: gone\ndata: {{"run_id":"{RUN_ID}","ts":1.0}}\n\n'
    gateway.answer(WATCH, text=snapshot(RUNNING, 7) + gone, content_type=SSE)
    with Client(gateway.url) as client, pytest.raises(RunNotFoundError):
        list(client.run(RUN_ID).watch())


def test_a_watch_polls_after_a_refusal_for_too_many_streams(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(WATCH, 429, problem("0104"), headers={"Retry-After": "60"})
    gateway.answer(GET, 200, RUNNING)
    gateway.answer(GET, 200, RUNNING)
    gateway.answer(GET, 200, COMPLETED)
    with Client(gateway.url) as client:
        states = [run.status for run in client.run(RUN_ID).watch()]
    assert states == [RunStatus.RUNNING, RunStatus.COMPLETED]
    assert len([sent for sent in gateway.requests if "/watch" in sent.target]) == 1


def test_polling_respects_retry_after(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 429, problem("0104"), headers={"Retry-After": "1"})
    gateway.answer(GET, 200, COMPLETED)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).wait(timeout=1.9).is_over
    assert len(gateway.requests) == 2


def test_a_watch_raises_after_its_patience_without_an_answer(gateway: RecordedGateway) -> None:
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
def test_a_stream_that_is_not_from_a_gateway_is_an_unexpected_answer(
    gateway: RecordedGateway, text: str, content_type: str
) -> None:
    gateway.answer(WATCH, text=text, content_type=content_type)
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError):
        list(client.run(RUN_ID).watch())


def test_a_wait_ends_at_its_timeout_while_the_run_continues(gateway: RecordedGateway) -> None:
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE)
    gateway.answer(GET, 200, RUNNING)
    with Client(gateway.url) as client:
        began = time.monotonic()
        with pytest.raises(WaitTimeoutError) as caught:
            client.run(RUN_ID).wait(timeout=2.5)
        assert 2.4 <= time.monotonic() - began < 10
    assert caught.value.last_status == "RUNNING"


def test_a_wait_may_have_no_timeout(gateway: RecordedGateway) -> None:
    gateway.answer(WATCH, text=snapshot(COMPLETED, 1), content_type=SSE)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).wait(timeout=math.inf).status is RunStatus.COMPLETED


def test_a_wait_without_an_answer_has_its_cause(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 503, problem("0003"))
    with Client(gateway.url) as client, pytest.raises(WaitTimeoutError) as caught:
        client.run(RUN_ID).wait(timeout=0.3)
    assert isinstance(caught.value.__cause__, BrokerUnavailableError)


def test_the_result_holds_the_values_of_the_last_tasks(gateway: RecordedGateway) -> None:
    gateway.answer(WATCH, text=snapshot(COMPLETED, 9), content_type=SSE)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).result() == {"greet": "Hi"}


@pytest.mark.parametrize(("status", "kind"), [("FAILED", RunFailed), ("CANCELLED", RunCancelled)])
def test_the_result_of_a_failed_or_cancelled_run_raises_with_the_run(
    gateway: RecordedGateway, status: str, kind: type[RunFailed | RunCancelled]
) -> None:
    ended = {**RUNNING, "status": status, "error": "ValueError: no", "cancel_reason": "late"}
    gateway.answer(WATCH, text=snapshot(ended, 9), content_type=SSE)
    with Client(gateway.url) as client, pytest.raises(kind) as caught:
        client.run(RUN_ID).result()
    assert caught.value.run.status == status


def test_logs_are_read_page_by_page_up_to_the_current_line(gateway: RecordedGateway) -> None:
    gateway.answer(LOGS, 200, page("a", "b", cursor="5.0"))
    gateway.answer(LOGS, 200, page(cursor="9.0"))
    gateway.answer(LOGS, 200, page("c", cursor="10.0"))
    gateway.answer(LOGS, 200, page(cursor="10.0"))
    with Client(gateway.url) as client:
        lines = [line.text for line in client.run(RUN_ID).logs(task="greet")]
    assert lines == ["a", "b", "c"]
    assert len(gateway.requests) == 4
    assert "task=greet" in gateway.requests[-1].target


def test_followed_logs_resume_after_a_broken_connection(gateway: RecordedGateway) -> None:
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


def test_a_cancel_is_repeated_after_a_failure_and_can_wait(gateway: RecordedGateway) -> None:
    route = f"POST /runs/{RUN_ID}/cancel"
    gateway.answer(route, hang_up=True)
    gateway.answer(route, 200, {**RUNNING, "status": "CANCELLING"})
    ended = {**RUNNING, "status": "CANCELLED", "updated_at": 3.0}
    gateway.answer(WATCH, text=snapshot(ended, 9), content_type=SSE)
    with Client(gateway.url) as client:
        run = client.run(RUN_ID).cancel(wait=True, reason="enough")
    assert run.status is RunStatus.CANCELLED
    assert json.loads(gateway.requests[1].body) == {"reason": "enough"}


def test_a_delete_is_not_repeated(gateway: RecordedGateway) -> None:
    gateway.answer(f"DELETE /runs/{RUN_ID}", 204)
    gateway.answer(f"DELETE /runs/{RUN_ID}", hang_up=True)
    with Client(gateway.url) as client:
        client.run(RUN_ID).delete()
        with pytest.raises(GatewayUnreachableError):
            client.run(RUN_ID).delete()
    assert len(gateway.requests) == 2
