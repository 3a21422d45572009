"""The client against recorded answers of a gateway."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from pyoco_client import (
    ApiKeyMissingError,
    AsyncClient,
    BrokerUnavailableError,
    Client,
    GatewayUnreachableError,
    IdempotencyConflictError,
    PyocoHttpClient,
    RunStatus,
    TooManyRequestsError,
    UnexpectedAnswerError,
    WorkerNotFoundError,
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

ACCEPTED = {"run_id": RUN_ID, "status": "PENDING"}


def test_a_submission_with_a_key_is_repeated_until_it_is_answered(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", hang_up=True)
    gateway.answer("POST /runs", 503, problem("0107", run_id=RUN_ID))
    gateway.answer("POST /runs", 502, text="<html/>", content_type="text/html")
    gateway.answer("POST /runs", 200, ACCEPTED, headers={"Idempotency-Replayed": "true"})
    with Client(gateway.url) as client:
        run = client.submit("hello", {"n": 1}, tag="cpu", tags=["a"], idempotency_key="key-1")
    assert (run.id, run.is_replay) == (RUN_ID, True)
    assert len(gateway.requests) == 4
    assert {sent.headers["X-Idempotency-Key"] for sent in gateway.requests} == {"key-1"}
    assert len({sent.body for sent in gateway.requests}) == 1
    assert json.loads(gateway.requests[0].body) == {
        "flow_name": "hello",
        "params": {"n": 1},
        "tag": "cpu",
        "tags": ["a"],
    }


@pytest.mark.parametrize("fault", ["hang up", "silence", "503", "429"])
def test_a_submission_without_a_key_is_sent_once(gateway: RecordedGateway, fault: str) -> None:
    if fault == "hang up":
        gateway.answer("POST /runs", hang_up=True)
    elif fault == "silence":
        gateway.stay_silent("POST /runs")
    else:
        gateway.answer("POST /runs", int(fault), problem("0003"), headers={"Retry-After": "0"})
    with Client(gateway.url, timeout=0.3, deadline=3) as client:
        with pytest.raises((GatewayUnreachableError, BrokerUnavailableError)) as caught:
            client.submit("hello")
        if isinstance(caught.value, GatewayUnreachableError):
            assert caught.value.may_have_arrived
            assert caught.value.request_id == gateway.requests[0].headers["X-Request-ID"]
    assert len(gateway.requests) == 1


class Acceptance(BaseHTTPRequestHandler):
    """Accepts every submission."""

    met: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.met.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(ACCEPTED).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_submission_that_was_not_sent_is_repeated() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Acceptance, bind_and_activate=False)
    # Bound but not listening: connections are refused.
    server.server_bind()
    outcome: list[str] = []
    refused = threading.Event()

    def submit() -> None:
        with Client(f"http://127.0.0.1:{server.server_port}", deadline=0) as client:
            with pytest.raises(GatewayUnreachableError) as caught:
                client.submit("hello")
            assert not caught.value.may_have_arrived
        refused.set()
        with Client(f"http://127.0.0.1:{server.server_port}", deadline=20) as client:
            outcome.append(client.submit("hello").id)

    with server:
        thread = threading.Thread(target=submit)
        thread.start()
        assert refused.wait(20)
        # Time for at least one refused connection of the second client.
        thread.join(0.2)
        server.server_activate()
        server.handle_request()
        thread.join(20)
    assert outcome == [RUN_ID]
    assert len(Acceptance.met) == 1


def test_a_read_is_repeated_after_retry_after(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 429, problem("0104"), headers={"Retry-After": "1"})
    gateway.answer(GET, 200, RUNNING)
    with Client(gateway.url) as client:
        began = time.monotonic()
        assert client.run(RUN_ID).get().status is RunStatus.RUNNING
        assert time.monotonic() - began >= 1.0


def test_a_request_is_not_repeated_if_retry_after_exceeds_the_deadline(
    gateway: RecordedGateway,
) -> None:
    gateway.answer(GET, 429, problem("0104"), headers={"Retry-After": "30"})
    with Client(gateway.url, deadline=5) as client, pytest.raises(TooManyRequestsError) as caught:
        client.run(RUN_ID).get()
    assert caught.value.retry_after_sec == 30.0
    assert len(gateway.requests) == 1


def test_a_call_ends_at_its_deadline_with_the_last_error(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 503, problem("0003"))
    with Client(gateway.url, deadline=0.5) as client, pytest.raises(BrokerUnavailableError):
        client.run(RUN_ID).get()
    assert len(gateway.requests) > 1


def test_without_a_deadline_nothing_is_repeated(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 503, problem("0003"))
    with Client(gateway.url, deadline=0) as client, pytest.raises(BrokerUnavailableError):
        client.run(RUN_ID).get()
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(("code", "is_lasting"), [("EAI_NONAME", True), ("EAI_AGAIN", False)])
def test_an_unknown_host_name_raises_at_once(
    monkeypatch: pytest.MonkeyPatch, code: str, is_lasting: bool
) -> None:
    asked: list[object] = []

    def look_up(host: object, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        raise socket.gaierror(getattr(socket, code), "not resolved")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with (
        Client("http://gateway.test", deadline=1) as client,
        pytest.raises(GatewayUnreachableError) as caught,
    ):
        client.health()
    assert caught.value.is_lasting is is_lasting
    assert (len(asked) == 1) is is_lasting


def test_a_request_is_repeated_after_an_incomplete_answer(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, RUNNING, missing_bytes=10)
    gateway.answer(GET, 200, COMPLETED)
    with Client(gateway.url) as client:
        assert client.run(RUN_ID).get().is_over


class Dripping(BaseHTTPRequestHandler):
    """Sends an endless body in small pieces."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.02)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_slow_body_is_limited_by_the_timeout() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with (
            Client(f"http://127.0.0.1:{server.server_port}", timeout=0.3, deadline=0) as client,
            pytest.raises(GatewayUnreachableError, match="takes too long"),
        ):
            client.health()
        thread.join(10)


def test_errors_of_the_client_itself_use_the_language(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", hang_up=True)
    with (
        Client(gateway.url, lang="ja-JP", deadline=0) as client,
        pytest.raises(GatewayUnreachableError) as caught,
    ):
        client.health()
    assert caught.value.hint is not None
    assert not caught.value.hint.isascii()


def test_each_request_carries_the_language_and_the_key(gateway: RecordedGateway) -> None:
    gateway.answer("GET /health", 401, problem("0014"))
    with (
        Client(gateway.url, lang="ja", api_key="secret", api_key_header="X-Team") as client,
        pytest.raises(ApiKeyMissingError),
    ):
        client.health()
    sent = gateway.requests[0].headers
    assert (sent["Accept-Language"], sent["X-Team"]) == ("ja", "secret")
    assert sent["User-Agent"].startswith("pyoco-client/")


def test_every_request_asks_the_gateway_to_refuse_unknown_input(gateway: RecordedGateway) -> None:
    """A gateway that ignores a filter would list everything."""
    gateway.answer("POST /runs", 200, ACCEPTED)
    gateway.answer("GET /runs", 200, [])
    gateway.answer(
        "GET /runs/watch", text='event: ready\ndata: {"revision":3}\n\n', content_type=SSE
    )
    with Client(gateway.url) as client:
        client.submit("hello")
        client.runs.list(tag="gpu")
        next(client.runs.watch())
    with PyocoHttpClient(gateway.url) as plain:
        plain.submit_run("hello")
    assert [sent.headers["Prefer"] for sent in gateway.requests] == ["handling=strict"] * 4


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({"state": "STOPPED_GRACEFUL"}, {"scope": ["all"], "state": ["STOPPED_GRACEFUL"]}),
        ({"state": "IDLE", "scope": "active"}, {"scope": ["active"], "state": ["IDLE"]}),
        ({}, {}),
    ],
)
def test_a_list_of_workers_by_state_covers_all_workers(
    gateway: RecordedGateway, options: dict[str, str], query: dict[str, list[str]]
) -> None:
    gateway.answer("GET /workers", 200, [])
    with Client(gateway.url) as client:
        client.workers.list(**options)  # type: ignore[arg-type] # the values are all texts
    assert gateway.last_query() == query


def test_an_idempotency_conflict_names_the_earlier_run(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", 409, problem("0102", run_id=RUN_ID))
    with Client(gateway.url) as client, pytest.raises(IdempotencyConflictError) as caught:
        client.submit("hello", idempotency_key="k")
    assert caught.value.run_id == RUN_ID


def test_iter_yields_the_runs_of_all_pages(gateway: RecordedGateway) -> None:
    def listed(number: int, cursor: str | None) -> dict[str, Any]:
        item = {"run_id": str(number), "status": "PENDING", "updated_at": 1.0}
        return {"items": [item], "next_cursor": cursor}

    gateway.answer("GET /runs", 200, listed(1, "c1"))
    gateway.answer("GET /runs", 200, listed(2, None))
    with Client(gateway.url) as client:
        assert [run.run_id for run in client.runs.iter(flow="hel*", status="PENDING")] == ["1", "2"]
    first, second = (sent.target for sent in gateway.requests)
    assert "order=created" in first
    assert "flow=hel%2A" in first
    assert "cursor=c1" in second
    assert "flow=hel%2A" in second


def page_of(*run_ids: str, following: str | None, resume: str) -> dict[str, Any]:
    items = [{"run_id": each, "status": "PENDING", "updated_at": 1.0} for each in run_ids]
    return {"items": items, "next_cursor": following, "resume_cursor": resume}


def cursors_sent(gateway: RecordedGateway) -> list[str | None]:
    queries = [parse_qs(urlsplit(sent.target).query) for sent in gateway.requests]
    return [query.get("cursor", [None])[0] for query in queries]


def test_changes_read_the_list_to_its_end_and_then_follow_its_first_page(
    gateway: RecordedGateway,
) -> None:
    gateway.answer("GET /runs", 200, page_of("3", "2", following="n1", resume="r1"))
    gateway.answer("GET /runs", 200, page_of("1", following=None, resume="r1"))
    gateway.answer("GET /runs", 200, page_of("2", following="r2", resume="r2"))
    gateway.answer("GET /runs", 200, page_of("3", following=None, resume="r3"))
    gateway.answer("GET /runs", 200, page_of("4", following=None, resume="r4"))
    with Client(gateway.url) as client:
        changes = client.runs.changes(since=5, tag="gpu")
        assert [run.run_id for run in changes] == ["3", "2", "1", "2", "3"]
        assert changes.cursor == "r3"
        assert [run.run_id for run in changes] == ["4"]
        assert changes.cursor == "r4"
    assert "updated_after=5.0" in gateway.requests[0].target
    assert all("tag=gpu" in sent.target for sent in gateway.requests)
    assert cursors_sent(gateway) == [None, "n1", "r1", "r2", "r3"]


def test_an_iteration_that_stopped_early_is_continued_with_the_same_page(
    gateway: RecordedGateway,
) -> None:
    gateway.answer("GET /runs", 200, page_of("3", following="n1", resume="r1"))
    gateway.answer("GET /runs", 200, page_of("2", "1", following=None, resume="r1"))
    gateway.answer("GET /runs", 200, page_of("2", "1", following=None, resume="r1"))
    gateway.answer("GET /runs", 200, page_of(following=None, resume="r2"))
    with Client(gateway.url) as client:
        changes = client.runs.changes()
        for run in changes:
            if run.run_id == "2":
                break
        # The list was not read to its end, so no other process can continue here.
        within_the_list = changes.cursor
        assert within_the_list is None
        assert [run.run_id for run in changes] == ["2", "1"]
        assert changes.cursor == "r2"
    assert cursors_sent(gateway) == [None, "n1", "n1", "r1"]


def test_changes_continue_at_the_cursor_of_another_process(gateway: RecordedGateway) -> None:
    gateway.answer("GET /runs", 200, page_of("7", following=None, resume="r8"))
    with Client(gateway.url) as client:
        changes = client.runs.changes(cursor="r7")
        assert [run.run_id for run in changes] == ["7"]
        assert changes.cursor == "r8"
    assert cursors_sent(gateway) == ["r7"]


def test_changes_need_a_gateway_that_answers_with_a_resume_cursor(gateway: RecordedGateway) -> None:
    gateway.answer("GET /runs", 200, {"items": [], "next_cursor": "n1"})
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError, match="resume_cursor"):
        next(iter(client.runs.changes()))


def test_a_watch_of_many_runs_survives_broken_connections(gateway: RecordedGateway) -> None:
    item = {"run_id": "1", "status": "PENDING", "updated_at": 1.0}
    first = 'event: ready\nid: 3\ndata: {"revision":3,"ts":1.0}\n\n' + HEARTBEAT
    gateway.answer("GET /runs/watch", text=first, content_type=SSE, missing_bytes=1)
    data = json.dumps({"run_id": "1", "snapshot": item, "ts": 1.0})
    gone = 'event: gone\nid: 5\ndata: {"run_id":"1","ts":2.0}\n\n'
    second = f"event: snapshot\nid: 4\ndata: {data}\n\n{gone}"
    gateway.answer("GET /runs/watch", text=second, content_type=SSE)
    with Client(gateway.url) as client:
        changes = client.runs.watch(tag="cpu")
        kinds = [next(changes).kind for _ in range(3)]
        changes.close()
    assert kinds == ["ready", "snapshot", "gone"]
    assert gateway.requests[1].headers["Last-Event-ID"] == "3"


def test_a_worker_is_found_by_its_id_or_raises_not_found(gateway: RecordedGateway) -> None:
    worker = {"worker_id": "w", "state": "IDLE", "last_seen_at": 1.0, "last_heartbeat_at": 1.0}
    gateway.answer("GET /workers", 200, [worker])
    with Client(gateway.url) as client:
        assert client.workers.get("w").state == "IDLE"
        with pytest.raises(WorkerNotFoundError) as caught:
            client.workers.get("x")
    assert caught.value.err_id == "ERR-PYOCO-0020"


def test_an_unexpected_answer_names_the_wrong_field(gateway: RecordedGateway) -> None:
    gateway.answer(GET, 200, {**RUNNING, "status": "DREAMING"})
    with Client(gateway.url) as client, pytest.raises(UnexpectedAnswerError, match="status"):
        client.run(RUN_ID).get()


async def test_the_async_client_submits_watches_and_cancels(gateway: RecordedGateway) -> None:
    gateway.answer("POST /runs", hang_up=True)
    gateway.answer("POST /runs", 200, {**ACCEPTED, "warnings": ["no worker"]})
    gateway.answer(WATCH, text=snapshot(RUNNING, 7), content_type=SSE, missing_bytes=1)
    gateway.answer(WATCH, text=snapshot(COMPLETED, 9), content_type=SSE)
    async with AsyncClient(gateway.url) as client:
        run = await client.submit("hello", idempotency_key="k")
        assert run.warnings == ("no worker",)
        assert [seen.status async for seen in run.watch()] == ["RUNNING", "COMPLETED"]
        assert await run.result() == {"greet": "Hi"}


def test_a_password_in_the_address_is_never_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with Client(f"http://user:geheim@127.0.0.1:{free}", deadline=0) as client:
        with pytest.raises(GatewayUnreachableError) as caught:
            client.health()
        assert f"127.0.0.1:{free}" in str(caught.value)
        assert "geheim" not in f"{caught.value} {vars(caught.value)} {client!r}"
