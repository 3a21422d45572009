"""Measures reads of executions, and commands on logs of different lengths."""

import random
import sys
import time
from collections.abc import Mapping
from typing import Final

import anyio

from harness.execution_fill import LABELS, TASK
from harness.execution_load import GRAPH_ID, idempotency_key
from harness.http_connection import connected
from harness.processes import serve

_WARM_UP: Final = 10
_POLL_SEC: Final = 0.05

QUERIES: Final[Mapping[str, str]] = {
    "list": "/executions?limit=50",
    "list_created": "/executions?limit=50&order=created",
    "list_status": "/executions?limit=50&status=ACTIVE",
    "list_graph": f"/executions?limit=50&graphId={GRAPH_ID}",
    "list_label": f"/executions?limit=50&label={LABELS[0]}",
    "list_nothing_matches": "/executions?limit=50&status=FAILED",
    "ready_tasks": "/ready-tasks?limit=50",
    "waits": "/waits?limit=50",
}


async def lists(url: str, count: int, _: int) -> dict[str, list[float]]:
    """Send each query `count` times; return the times."""
    times: dict[str, list[float]] = {name: [] for name in QUERIES}
    async with connected(url) as connection:
        for number in range(_WARM_UP + count):
            for name, path in QUERIES.items():
                began = time.perf_counter()
                await connection.get_bytes(path)
                if number >= _WARM_UP:
                    times[name].append(time.perf_counter() - began)
    return times


async def ready(url: str, _: int, __: int) -> dict[str, float]:
    """Wait until lists are answered; return the time."""
    while True:
        try:
            async with connected(url) as connection:
                await connection.get_bytes("/executions?limit=1")
                return {"at": time.time()}
        except (RuntimeError, OSError):
            await anyio.sleep(_POLL_SEC)


async def one_log(url: str, count: int, last_seq: int) -> dict[str, list[float]]:
    """Measure one execution, named on stdin: its first command, later ones, and past states."""
    execution_id = sys.stdin.readline().strip()
    path = f"/executions/{execution_id}"
    times: dict[str, list[float]] = {"first_command": [], "command": [], "at_seq": []}
    async with connected(url) as connection:
        for number in range(2 * count + 1):
            # A wait and a resume of the Task, in turn, are one event each.
            verb = "resume" if number % 2 else "wait"
            began = time.perf_counter()
            await connection.post(f"{path}/nodes/{TASK}/{verb}", b"{}", idempotency_key())
            taken = time.perf_counter() - began
            times["command" if number else "first_command"].append(taken)
        for _ in range(count):
            seq = random.randint(1, last_seq)
            began = time.perf_counter()
            await connection.get_bytes(f"{path}?atSeq={seq}")
            times["at_seq"].append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    serve(lists, ready, one_log)
