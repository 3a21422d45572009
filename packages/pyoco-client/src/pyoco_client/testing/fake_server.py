"""A fake gateway that answers in the same process, as scripted."""

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import httpx

from pyoco_client import AsyncClient, Client
from pyoco_protocol.problems import CATALOGUE

FAKE_URL: Final = "http://pyoco.test"

Result = Mapping[str, Any]
# The result of a flow, or a function that returns it for the params.
Script = Result | Callable[[Mapping[str, Any]], Result]

_WORKER_ID: Final = "fake-worker"
_TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """A request that the fake received."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True, slots=True)
class _Flow:
    result: Script | None
    error: str | None
    logs: Sequence[str]


@dataclass(slots=True)
class _Run:
    snapshot: dict[str, Any]
    # The next changes of the snapshot; each request for the run applies one.
    ahead: list[dict[str, Any]]
    logs: Sequence[str]
    submission: Mapping[str, Any]
    # The number of the latest change, counted over all runs.
    changed: int
    revision: int = 1


class FakeServer:
    """A fake gateway with scripted runs: `fake.on("hello", result={"greet": "Hello"})`.

    Each request for a run advances it by one step: PENDING, RUNNING, its end. A flow without a
    script fails like a flow that no worker has. `client()` and `async_client()` return clients of
    the fake; any client with its `transport` is one too. `requests` holds all requests,
    `submitted` all submissions.
    """

    def __init__(self) -> None:
        self.transport = FakeTransport(self)
        self.requests: list[FakeRequest] = []
        self.submitted: list[dict[str, Any]] = []
        self._flows: dict[str, _Flow] = {}
        self._runs: dict[str, _Run] = {}
        self._keys: dict[str, str] = {}
        self._changes = 0
        self._answers: dict[str, list[_Answer]] = {}
        # The next requests get no answer. Each entry says whether that request still takes effect.
        self._silences: list[bool] = []

    def client(self, **options: Any) -> Client:
        """Return a client of this fake; `options` are those of Client."""
        return Client(FAKE_URL, transport=self.transport, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        """Return an async client of this fake; `options` are those of AsyncClient."""
        return AsyncClient(FAKE_URL, transport=self.transport, **options)

    def on(
        self,
        flow: str,
        *,
        result: Script | None = None,
        error: str | None = None,
        logs: Sequence[str] = (),
    ) -> None:
        """Script a flow: its runs complete with `result`, or fail with `error`.

        `result` may be a function of the params. With neither, a run continues until it is
        cancelled. `logs` are the lines of its output.
        """
        self._flows[flow] = _Flow(result, error, tuple(logs))

    def answer(
        self,
        route: str,
        body: Any = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        text: str | None = None,
    ) -> None:
        """Set the answer to the next request of a route (`"GET /workers"`); calls queue up."""
        queue = self._answers.setdefault(route, [])
        queue.append(_Answer(status, body, headers or {}, text))

    def problem(self, route: str, status: int, err_id: str, **more: Any) -> None:
        """Set the answer to the next request of a route to an error of the catalogue."""
        self.answer(route, _problem(err_id, **more), status=status)

    def fall_silent(self, times: int = 1, *, arrives: bool = True) -> None:
        """Do not answer the next requests; with `arrives=False` refuse their connections."""
        self._silences += [arrives] * times

    def respond(self, request: httpx.Request, content: bytes) -> httpx.Response:
        """Return the answer to a request; raise an httpx error for a request without one."""
        if self._silences:
            if not self._silences.pop(0):
                raise httpx.ConnectError("connection refused", request=request)
            self._recorded(request, content)
            raise httpx.ReadError("connection reset", request=request)
        received = self._recorded(request, content)
        answer = self._next_answer(received)
        headers = {"X-Request-ID": received.headers.get("x-request-id", "fake"), **answer.headers}
        if answer.text is not None:
            return httpx.Response(answer.status, headers=headers, text=answer.text)
        if answer.status == httpx.codes.NO_CONTENT:
            return httpx.Response(answer.status, headers=headers)
        return httpx.Response(answer.status, headers=headers, json=answer.body)

    def _recorded(self, request: httpx.Request, content: bytes) -> FakeRequest:
        received = FakeRequest(
            request.method,
            request.url.path,
            dict(request.url.params),
            {name.lower(): value for name, value in request.headers.items()},
            content,
        )
        self.requests.append(received)
        return received

    def _next_answer(self, request: FakeRequest) -> _Answer:
        if scripted := self._answers.get(f"{request.method} {request.path}"):
            return scripted.pop(0)
        match [request.method, *map(unquote, request.path.strip("/").split("/"))]:
            case ["GET", "health"]:
                return _Answer(body={"status": "ok", "version": "0.0.0"})
            case ["GET", "workers"]:
                return _Answer(body=[self._worker()])
            case ["GET", "queues"]:
                return _Answer(body=[])
            case ["GET", "metrics"]:
                return _Answer(text=f"pyoco_workers_alive_total 1.0\n{self._run_metrics()}")
            case ["GET", "dlq"]:
                return _Answer(body={"items": [], "next_cursor": None})
            case ["POST", "runs"]:
                return self._submit(request)
            case ["GET", "runs"]:
                return self._list(request)
            case ["POST", "runs", "yaml"]:
                return self._submit(request)
            case ["POST", "runs", "yaml", "validate"]:
                return _Answer(body={"valid": True})
            case ["GET", "runs", "counts"]:
                return self._counts()
            case ["GET", "runs", "watch"]:
                return _Answer(404, _problem("ERR-PYOCO-0110"))
            case [method, "runs", run_id, *rest]:
                return self._about_run(method, run_id, rest)
        return _Answer(404, _problem("ERR-PYOCO-0110"))

    def _submit(self, request: FakeRequest) -> _Answer:
        submission = _submission_in(request)
        key = request.headers.get("x-idempotency-key")
        if key is not None and key in self._keys:
            known = self._runs[self._keys[key]]
            run_id = known.snapshot["run_id"]
            if known.submission != submission:
                return _Answer(409, _problem("ERR-PYOCO-0102", run_id=run_id))
            body = {"run_id": run_id, "status": known.snapshot["status"]}
            return _Answer(body=body, headers={"Idempotency-Replayed": "true"})
        self.submitted.append(submission)
        run = self._made(submission)
        run_id = run.snapshot["run_id"]
        self._runs[run_id] = run
        if key is not None:
            self._keys[key] = run_id
        return _Answer(body={"run_id": run_id, "status": "PENDING"})

    def _made(self, submission: dict[str, Any]) -> _Run:
        now = time.time()
        tag = submission.get("tag") or "default"
        pending = {
            "run_id": str(uuid.uuid4()),
            "flow_name": submission["flow_name"],
            "status": "PENDING",
            "params": submission.get("params") or {},
            "tasks": {},
            "heartbeat_at": now,
            "updated_at": now,
            "tag": tag,
            "tags": submission.get("tags") or [tag],
            "submitted_at": now,
        }
        flow = self._flows.get(submission["flow_name"])
        running = {"status": "RUNNING", "worker_id": _WORKER_ID, "attempt": 1}
        end = _end_of(flow, pending["params"])
        self._changes += 1
        logs = flow.logs if flow else ()
        return _Run(pending, [running, *end], logs, submission, self._changes)

    def _about_run(self, method: str, run_id: str, rest: Sequence[str]) -> _Answer:
        run = self._runs.get(run_id)
        if run is None:
            return _Answer(404, _problem("ERR-PYOCO-0005"))
        match [method, *rest]:
            case ["GET"]:
                self._step(run)
                return _Answer(body=run.snapshot)
            case ["GET", "tasks"]:
                names = ("run_id", "flow_name", "status", "tasks")
                fields = {name: run.snapshot[name] for name in names}
                return _Answer(body={**fields, "task_records": {}, "task_records_truncated": False})
            case ["GET", "watch"]:
                return self._watch(run)
            case ["GET", "logs"]:
                return self._logs(run)
            case ["POST", "cancel"]:
                return self._cancel(run)
            case ["DELETE"] if run.snapshot["status"] in _TERMINAL:
                del self._runs[run_id]
                return _Answer(204)
            case ["DELETE"]:
                return _Answer(409, _problem("ERR-PYOCO-0118"))
        return _Answer(404, _problem("ERR-PYOCO-0110"))

    def _step(self, run: _Run) -> bool:
        if not run.ahead:
            return False
        self._changes += 1
        run.changed = self._changes
        run.revision += 1
        run.snapshot = {**run.snapshot, **run.ahead.pop(0), "updated_at": time.time()}
        return True

    def _watch(self, run: _Run) -> _Answer:
        events = [_event(run)]
        while self._step(run):
            events.append(_event(run))
        return _Answer(text="".join(events), headers={"Content-Type": "text/event-stream"})

    def _logs(self, run: _Run) -> _Answer:
        lines = [
            {"seq": seq, "ts": 0.0, "attempt": 1, "stream": "stdout", "text": text}
            for seq, text in enumerate(run.logs)
        ]
        page = {"run_id": run.snapshot["run_id"], "items": lines}
        if "follow" in self.requests[-1].query:
            events = f"event: log\nid: 1\ndata: {json.dumps(page)}\n\nevent: end\ndata: {{}}\n\n"
            return _Answer(text=events, headers={"Content-Type": "text/event-stream"})
        return _Answer(body={**page, "next_cursor": None})

    def _cancel(self, run: _Run) -> _Answer:
        if run.snapshot["status"] not in _TERMINAL:
            cancelling = {"status": "CANCELLING", "cancel_requested_at": time.time()}
            run.ahead = [cancelling, {"status": "CANCELLED"}]
            self._step(run)
        return _Answer(body=run.snapshot)

    def _list(self, request: FakeRequest) -> _Answer:
        runs = [
            run
            for run in self._runs.values()
            if request.query.get("status") in (None, run.snapshot["status"])
            and request.query.get("flow") in (None, run.snapshot["flow_name"])
            and request.query.get("tag") in (None, run.snapshot["tag"])
        ]
        if "cursor" in request.query:
            runs = [run for run in runs if run.changed > int(request.query["cursor"])]
        if request.query.get("order") == "created":
            runs.reverse()
        else:
            # Changes since a cursor come oldest first, a list newest first.
            runs.sort(key=lambda run: run.changed, reverse="cursor" not in request.query)
        items = [run.snapshot for run in runs]
        if request.query.keys() & {"cursor", "updated_after", "order"}:
            resume = str(self._changes)
            return _Answer(body={"items": items, "next_cursor": None, "resume_cursor": resume})
        return _Answer(body=items[: int(request.query.get("limit", 50))])

    def _counts(self) -> _Answer:
        return _Answer(body={"total": len(self._runs), "by_status": self._by_status()})

    def _by_status(self) -> dict[str, int]:
        names = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")
        found = [run.snapshot["status"] for run in self._runs.values()]
        return {name: found.count(name) for name in names}

    def _run_metrics(self) -> str:
        return "".join(
            f'pyoco_runs_total{{status="{status}"}} {count}.0\n'
            for status, count in self._by_status().items()
        )

    def _worker(self) -> dict[str, Any]:
        now = time.time()
        return {
            "worker_id": _WORKER_ID,
            "state": "IDLE",
            "hidden": False,
            "last_seen_at": now,
            "last_heartbeat_at": now,
            "tags": ["default"],
        }


def _submission_in(request: FakeRequest) -> dict[str, Any]:
    if request.path == "/runs":
        submission: dict[str, Any] = request.json
        return submission
    parts = re.findall(
        r'name="(\w+)"[^\r]*(?:\r\n[^\r]+)?\r\n\r\n(.*?)\r\n--', request.content.decode(), re.DOTALL
    )
    return dict(parts)


def _end_of(flow: _Flow | None, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    if flow is None:
        return [{"status": "FAILED", "error": "flow not found", "err_id": "ERR-PYOCO-0006"}]
    if flow.error is not None:
        return [{"status": "FAILED", "error": flow.error, "err_id": "ERR-PYOCO-0007"}]
    if flow.result is None:
        return []
    result = flow.result(params) if callable(flow.result) else flow.result
    return [{"status": "COMPLETED", "result": dict(result)}]


def _event(run: _Run) -> str:
    data = {"run_id": run.snapshot["run_id"], "snapshot": run.snapshot, "ts": time.time()}
    return f"event: snapshot\nid: {run.revision}\ndata: {json.dumps(data)}\n\n"


def _problem(err_id: str, **more: Any) -> dict[str, Any]:
    entry = CATALOGUE[err_id]
    return {
        "detail": entry.message["en"],
        "err_id": entry.err_id,
        "msg_id": entry.msg_id,
        "message": entry.message["en"],
        "hint": entry.hint["en"],
        "request_id": "fake",
        **more,
    }


class FakeTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The httpx transport of a client of the fake."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a Client."""
        return self._server.respond(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer an AsyncClient."""
        return self._server.respond(request, await request.aread())
