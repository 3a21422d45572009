from collections.abc import Callable
from typing import Any, Protocol

WORKER = {
    "worker_id": "worker-1",
    "instance_id": "i",
    "state": "IDLE",
    "hidden": False,
    "last_seen_at": 1.0,
    "last_heartbeat_at": 1.0,
    "tags": ["cpu", "gpu"],
    "concurrency": 4,
    "slots_in_use": 1,
}
QUEUE = {
    "tag": "gpu",
    "pending": 3,
    "in_flight": 0,
    "oldest_age_sec": 187.0,
    "workers": 0,
    "free_slots": 0,
    "warnings": ["has work, has no worker"],
}


class Sent(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    @property
    def requests(self) -> list[Sent]: ...

    def answer(
        self,
        route: str,
        status: int = 200,
        body: Any = None,
        *,
        text: str | None = None,
        content_type: str = "application/json",
    ) -> None: ...


Call = Callable[..., Any]


def test_workers_are_listed_as_they_are_asked_for(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /workers", 200, [WORKER])
    options = ["--scope", "all", "--state", "idle", "--include-hidden", "--limit", "5"]
    assert call("workers", *options).json() == [WORKER]
    for part in ("scope=all", "state=IDLE", "include_hidden=true", "limit=5"):
        assert part in gateway.requests[0].target
    (_, line) = call("workers", "-o", "table").out.splitlines()
    assert line.split()[:4] == ["worker-1", "IDLE", "cpu,gpu", "1/4"]
    assert gateway.requests[-1].target == "/workers"


def test_queues_tell_how_long_the_first_has_waited(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /queues", 200, [QUEUE])
    (_, line) = call("queues", "-o", "table").out.splitlines()
    assert line.split()[:4] == ["gpu", "3", "0", "3m07s"]
    assert line.endswith("has work, has no worker")
    assert call("queues").json() == [QUEUE]


def test_a_worker_is_hidden_and_shown(gateway: Gateway, call: Call) -> None:
    answer = {"worker_id": "worker-1", "hidden": True, "updated_at": 1.0}
    gateway.answer("PATCH /workers/worker-1", 200, answer)
    assert call("worker", "hide", "worker-1").json() == answer
    assert call("worker", "show", "worker-1", "-o", "name").out == "worker-1\n"
    assert [each.body for each in gateway.requests] == [b'{"hidden": true}', b'{"hidden": false}']


def test_metrics_are_printed_as_they_came(gateway: Gateway, call: Call) -> None:
    page = '# HELP a b\npyoco_runs_total{status="FAILED"} 1.0\n'
    gateway.answer("GET /metrics", 200, text=page, content_type="text/plain; version=0.0.4")
    assert call("metrics").out == page


def test_the_page_of_another_server_is_not_taken_for_metrics(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /metrics", text="<html>hello</html>", content_type="text/html")
    printed = call("metrics")
    assert (printed.code, printed.out) == (1, "")
    assert "does not answer like a gateway: 200 with text/html instead of text" in printed.err


def test_health_tells_more_where_it_is_asked_to(gateway: Gateway, call: Call) -> None:
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0"})
    assert call("health", "-o", "table").out == "STATUS   ok\nVERSION  0.1.0\n"
    broker = {"connected": True, "address": "nats://127.0.0.1:4222"}
    gateway.answer("GET /health", 200, {"status": "ok", "version": "0.1.0", "broker": broker})
    call("health", "-o", "table")
    assert "nats://127.0.0.1:4222" in call("health", "--verbose", "-o", "table").out
    assert gateway.requests[-1].target == "/health?verbose=1"
