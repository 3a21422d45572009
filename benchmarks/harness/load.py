"""Load generators that use only HTTP. They run in their own process."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from harness.http_connection import HttpConnection, connected
from harness.processes import serve

BODY: Final = json.dumps({"flow_name": "noop", "params": {"n": 1}}).encode()
TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
_POLL_SEC: Final = 0.005
_SPACE_SEC: Final = 0.03


async def submissions(url: str, count: int, clients: int, *, body: bytes = BODY) -> dict[str, Any]:
    """Submit `count` runs over `clients` connections; return start, duration and latencies."""
    latencies: list[float] = []
    run_ids: list[str] = []
    tickets = iter(range(count))

    async def submit(connection: HttpConnection) -> None:
        for _ in tickets:
            began = time.perf_counter()
            answer = await connection.post("/runs", body)
            latencies.append(time.perf_counter() - began)
            run_ids.append(answer["run_id"])

    timing: dict[str, Any] = await _timed(url, clients, submit)
    return {**timing, "latencies": latencies, "run_ids": run_ids}


async def completions(url: str, count: int, clients: int, *, body: bytes = BODY) -> dict[str, Any]:
    """Submit `count` runs and poll them to their ends, the oldest first."""
    submitted = await submissions(url, count, clients, body=body)
    unexpected: dict[str, int] = {}
    async with connected(url) as connection:
        for run_id in submitted["run_ids"]:
            status = await _wait_for_end(connection, run_id, _POLL_SEC)
            if status != "COMPLETED":
                unexpected[status] = unexpected.get(status, 0) + 1
    return {**submitted, "seen_at": time.time(), "unexpected": unexpected}


async def one_by_one(url: str, count: int, _clients: int) -> dict[str, Any]:
    """Submit runs one by one, polling each without a pause until it has ended."""
    latencies: list[float] = []
    async with connected(url) as connection:
        for _ in range(count):
            began = time.perf_counter()
            run_id = (await connection.post("/runs", BODY))["run_id"]
            status = await _wait_for_end(connection, run_id, 0.0)
            latencies.append(time.perf_counter() - began)
            if status != "COMPLETED":
                raise RuntimeError(f"run {run_id} ended {status}")
    return {"latencies": latencies}


async def cancels(url: str, count: int, _clients: int) -> dict[str, Any]:
    """Cancel runs one by one, polling each until it has ended; return the latency of each."""
    latencies: list[float] = []
    async with connected(url) as connection:
        for _ in range(count):
            run_id = (await connection.post("/runs", _body("wait")))["run_id"]
            while (await connection.get(f"/runs/{run_id}"))["status"] != "RUNNING":  # noqa: ASYNC110 - HTTP
                await anyio.sleep(_POLL_SEC)
            began = time.perf_counter()
            await connection.post(f"/runs/{run_id}/cancel", b"{}")
            status = await _wait_for_end(connection, run_id, 0.0)
            latencies.append(time.perf_counter() - began)
            if status != "CANCELLED":
                raise RuntimeError(f"run {run_id} ended {status}")
    return {"latencies": latencies}


async def sleepers(url: str, count: int, clients: int) -> dict[str, Any]:
    """Submit runs that sleep, all at once, and poll them to their ends."""
    return await completions(url, count, clients, body=_body("sleep"))


async def spaced(url: str, count: int, _clients: int) -> dict[str, Any]:
    """Submit a run every 30 ms, so that the system is idle at each; return the send times."""
    sent: dict[str, float] = {}
    async with connected(url) as connection:
        for _ in range(count):
            began = time.time()
            sent[(await connection.post("/runs", BODY))["run_id"]] = began
            await anyio.sleep(_SPACE_SEC)
    return {"sent": sent}


def _body(flow: str) -> bytes:
    return json.dumps({"flow_name": flow}).encode()


async def _wait_for_end(connection: HttpConnection, run_id: str, pause_sec: float) -> str:
    while True:
        status = str((await connection.get(f"/runs/{run_id}"))["status"])
        if status in TERMINAL:
            return status
        await anyio.sleep(pause_sec)


async def _timed(url: str, clients: int, work: Callable[[HttpConnection], Awaitable[None]]) -> Any:
    ready = 0
    began = began_at = 0.0
    go = anyio.Event()

    async def client() -> None:
        nonlocal ready, began, began_at
        async with connected(url) as connection:
            await connection.get("/health")
            ready += 1
            if ready == clients:
                began, began_at = time.perf_counter(), time.time()
                go.set()
            await go.wait()
            await work(connection)

    async with anyio.create_task_group() as tasks:
        for _ in range(clients):
            tasks.start_soon(client)
    return {"seconds": time.perf_counter() - began, "began_at": began_at}


if __name__ == "__main__":
    serve(submissions, completions, one_by_one, cancels, sleepers, spaced)
