"""Sends the commands of executions over HTTP. It runs in its own process."""

import itertools
import json
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import anyio

from harness.http_connection import HttpConnection, connected
from harness.processes import serve

GRAPH_ID: Final = "benchmark"
# Ten nodes: a fork of three Tasks, a join, a wait and a Task.
_NODES: Final = (
    ("start", "Start"),
    ("fork", "Fork"),
    ("a", "Task"),
    ("b", "Task"),
    ("c", "Task"),
    ("join", "Join"),
    ("approve", "Wait"),
    ("ship", "Task"),
    ("report", "Task"),
    ("done", "Success"),
)
_EDGES: Final = (
    ("start", "fork"),
    *(("fork", each) for each in "abc"),
    *((each, "join") for each in "abc"),
    ("join", "approve"),
    ("approve", "ship"),
    ("ship", "report"),
    ("report", "done"),
)
GRAPH: Final[dict[str, Any]] = {
    "nodes": [{"id": name, "type": kind} for name, kind in _NODES],
    "edges": [{"from": source, "to": target} for source, target in _EDGES],
}
# The commands of one execution after its creation.
_STEPS: Final = (
    *((f"nodes/{task}/{verb}", {}) for task in "abc" for verb in ("start", "success")),
    ("nodes/approve/resume", {"payload": {"ok": True}}),
    *((f"nodes/{task}/{verb}", {}) for task in ("ship", "report") for verb in ("start", "success")),
)
COMMANDS: Final = 1 + len(_STEPS)
_OUTPUT: Final = {"output": {"rows": 7, "file": "orders-2026-11-18.csv"}}
# How many executions are in flight while their commands are sent.
IN_FLIGHT: Final = 1_000


# A fork of so many Tasks, which many writers can work on at once.
CONTENDED_GRAPH_ID: Final = "contended"
_TASKS: Final = [f"t{number}" for number in range(100)]
CONTENDED_GRAPH: Final[dict[str, Any]] = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {"id": "fork", "type": "Fork"},
        *({"id": task, "type": "Task"} for task in _TASKS),
        {"id": "join", "type": "Join"},
        {"id": "done", "type": "Success"},
    ],
    "edges": [
        {"from": "start", "to": "fork"},
        *({"from": "fork", "to": task} for task in _TASKS),
        *({"from": task, "to": "join"} for task in _TASKS),
        {"from": "join", "to": "done"},
    ],
}


async def contended(url: str, count: int, clients: int) -> dict[str, Any]:
    """Let clients write to one execution after the other, `count` in all.

    `url` names the gateways, separated by commas, that the clients use in turn. Returns the
    duration, and the latencies of the commands. A refused command is an error.
    """
    gateways = url.split(",")
    latencies: list[float] = []
    began = time.perf_counter()
    for _ in range(count):
        body = json.dumps({"graphId": CONTENDED_GRAPH_ID, "start": True}).encode()
        async with connected(gateways[0]) as connection:
            created = await connection.post("/executions", body, idempotency_key())
        tasks = iter(_TASKS)
        nodes = f"/executions/{created['executionId']}/nodes"

        async def write(gateway: str, tasks: Iterator[str] = tasks, nodes: str = nodes) -> None:
            async with connected(gateway) as connection:
                for task in tasks:
                    for verb in ("start", "success"):
                        sent = time.perf_counter()
                        await connection.post(f"{nodes}/{task}/{verb}", b"{}", idempotency_key())
                        latencies.append(time.perf_counter() - sent)

        async with anyio.create_task_group() as group:
            for client in range(clients):
                group.start_soon(write, gateways[client % len(gateways)])
    return {"seconds": time.perf_counter() - began, "latencies": latencies}


async def commands(url: str, count: int, clients: int) -> dict[str, Any]:
    """Run `count` executions from creation to their end; return the duration and the latencies.

    Every client takes the next command of any execution that has no command in flight.
    """
    latencies: list[float] = []
    steps = _Steps(count)

    async def client(connection: HttpConnection) -> None:
        while (step := steps.next()) is not None:
            began = time.perf_counter()
            answer = await connection.post(step.path, step.body, idempotency_key())
            latencies.append(time.perf_counter() - began)
            steps.done(step, answer["executionId"])

    seconds = await _timed(url, clients, client)
    return {"seconds": seconds, "latencies": latencies}


class _Step:
    __slots__ = ("body", "execution_id", "number", "path")

    def __init__(self, execution_id: str | None, number: int) -> None:
        self.execution_id = execution_id
        self.number = number
        if execution_id is None:
            self.path = "/executions"
            body: dict[str, Any] = {"graphId": GRAPH_ID, "start": True, "input": {"order": "o-1"}}
        else:
            what, body = _STEPS[number]
            self.path = f"/executions/{execution_id}/{what}"
            if what.endswith("success"):
                body = _OUTPUT
        self.body = json.dumps(body).encode()


class _Steps:
    """The commands that may be sent now, so that up to `IN_FLIGHT` executions take turns."""

    def __init__(self, count: int) -> None:
        self._new = count
        self._begun = 0
        self._ready: deque[tuple[str, int]] = deque()

    def next(self) -> _Step | None:
        """Return a command; None if every execution has one in flight, or has ended."""
        if self._new and self._begun < IN_FLIGHT:
            self._new -= 1
            self._begun += 1
            return _Step(None, -1)
        if self._ready:
            return _Step(*self._ready.popleft())
        return None

    def done(self, step: _Step, execution_id: str) -> None:
        """Note the answer to a command."""
        number = step.number + 1
        if number < len(_STEPS):
            self._ready.append((execution_id, number))
        else:
            self._begun -= 1


_KEYS: Final = itertools.count()
_PREFIX: Final = uuid.uuid4().hex[:12]


def idempotency_key() -> dict[str, str]:
    """Return the header with a new key."""
    return {"X-Idempotency-Key": f"{_PREFIX}-{next(_KEYS)}"}


Work = Callable[[HttpConnection], Awaitable[None]]


async def _timed(url: str, clients: int, work: Work) -> float:
    async with anyio.create_task_group() as tasks:
        began = time.perf_counter()
        for _ in range(clients):
            tasks.start_soon(_connected, url, work)
    return time.perf_counter() - began


async def _connected(url: str, work: Work) -> None:
    async with connected(url) as connection:
        await work(connection)


if __name__ == "__main__":
    serve(commands, contended)
