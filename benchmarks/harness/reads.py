"""Fills a bucket with runs and measures list requests."""

import asyncio
import json
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import anyio
import nats

from harness.http_connection import HttpConnection, connected
from harness.processes import serve
from pyoco_protocol.subjects import Names

NOW: Final = 1_790_000_000.0
FLOWS: Final = ("daily_report", "daily_sync", "train", "etl", "mail", "thumbnails", "日次集計")
TAGS: Final = ("default", "cpu", "gpu")
# Only terminal runs, because the reaper would act on others and disturb the measurement.
STATUSES: Final = ("COMPLETED",) * 90 + ("FAILED",) * 7 + ("CANCELLED",) * 3
SHA: Final = "ab" * 32

_IN_FLIGHT: Final = 500
_WARM_UP: Final = 20
_MIN_PAGES: Final = 300

# The measured requests by metric name. Filtered lists have a low limit, so that the small bucket
# can fill a page too and the comparison is about finding runs, not about sending them.
QUERIES: Final[Mapping[str, str]] = {
    "list": "/runs?limit=50",
    "list_full": "/runs?limit=50&include=full",
    "list_status": "/runs?limit=5&status=FAILED&status=CANCELLED",
    "list_flow": "/runs?limit=5&flow=train",
    "list_flow_prefix": "/runs?limit=5&flow=daily*",
    "list_tag": "/runs?limit=5&tag=gpu",
    "list_status_flow_tag": "/runs?limit=5&status=FAILED&flow=etl&tag=gpu",
    "list_nothing_matches": "/runs?limit=5&status=CANCELLING&tag=gpu",
    "list_sha": f"/runs?limit=5&workflow_yaml_sha256={SHA}",
    "delta_first": f"/runs?limit=50&updated_after={NOW - 1}",
    "counts": "/runs/counts",
    "counts_filtered": "/runs/counts?flow=daily*&tag=gpu",
    "metrics": "/metrics",
}


async def fill(url: str, count: int, _: int) -> dict[str, Any]:
    """Store `count` snapshots of ended runs with three tasks."""
    client = await nats.connect(url)
    names = Names()
    jetstream = client.jetstream()
    records = _records(count)

    async def write() -> None:
        for run_id, record in records:
            await jetstream.publish(names.run(run_id), record)

    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _each in range(_IN_FLIGHT):
            tasks.start_soon(write)
    await client.close()
    return {"seconds": time.perf_counter() - begun}


def _records(count: int) -> Iterator[tuple[str, bytes]]:
    random_source = random.Random(count)
    for number in range(count):
        run_id = str(uuid.UUID(int=random_source.getrandbits(128), version=4))
        submitted = NOW - count + number
        status = random_source.choice(STATUSES)
        flow, tag = random_source.choice(FLOWS), random_source.choice(TAGS)
        tasks = dict.fromkeys(("extract", "transform", "load"), "SUCCEEDED")
        record = {
            "run_id": run_id,
            "flow_name": flow,
            "status": status,
            "params": {"day": "2026-11-17", "rows": number},
            "tasks": tasks,
            "task_records": {
                name: {"state": state, "started_at": submitted, "ended_at": submitted, "output": 1}
                for name, state in tasks.items()
            },
            "heartbeat_at": submitted + 1,
            "updated_at": submitted + 1,
            "submitted_at": submitted,
            "start_time": submitted,
            "end_time": submitted + 1,
            "tag": tag,
            "tags": [tag],
            "worker_id": "bench-1",
            "attempt": 1,
            "error": "ValueError: no such table" if status == "FAILED" else None,
            "workflow_yaml_sha256": SHA if flow == "mail" else None,
        }
        kept = {name: value for name, value in record.items() if value is not None}
        yield run_id, json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()


async def rebuilt(url: str, count: int, _: int) -> dict[str, Any]:
    """Poll a gateway that is starting until it counts all runs; return the time of that."""
    async with connected(url) as connection:
        while True:
            try:
                counted = await connection.get("/runs/counts")
            except RuntimeError:
                # The gateway answers 503 while it builds its index.
                continue
            if counted["total"] >= count:
                return {"at": time.time()}
            await asyncio.sleep(0.01)


async def reads(url: str, count: int, _: int) -> dict[str, Any]:
    """Send each request `count` times, one after the other; return all response times."""
    async with connected(url) as connection:
        found: dict[str, Any] = {}
        for name, path in QUERIES.items():
            if (times := await _timed(connection, path, count)) is not None:
                found[name] = times
        found["delta_poll"] = await _polls(connection, count)
        return found


async def walk(url: str, count: int, limit: int) -> dict[str, Any]:
    """Read the whole history page by page; return the response time of each page.

    A short history is read repeatedly until there are enough pages to compare.
    """
    times: list[float] = []
    async with connected(url) as connection:
        while len(times) < _MIN_PAGES:
            seen, cursor = 0, ""
            while True:
                begun = time.perf_counter()
                body = await connection.get_bytes(f"/runs?order=created&limit={limit}{cursor}")
                times.append(time.perf_counter() - begun)
                page = json.loads(body)
                seen += len(page["items"])
                if page["next_cursor"] is None:
                    break
                cursor = f"&cursor={page['next_cursor']}"
            if seen != count:
                raise RuntimeError(f"{seen} of {count} runs were seen")
    return {"pages": times}


async def _timed(connection: HttpConnection, path: str, count: int) -> list[float] | None:
    times = []
    for _ in range(_WARM_UP + count):
        begun = time.perf_counter()
        try:
            await connection.get_bytes(path)
        except RuntimeError:
            # This version of the gateway does not have the route or the filter.
            return None
        times.append(time.perf_counter() - begun)
    return times[_WARM_UP:]


async def _polls(connection: HttpConnection, count: int) -> list[float]:
    """Return the times of polls that find nothing new."""
    page = await connection.get(f"/runs?limit=200&updated_after={NOW + 10}")
    # Earlier versions have `next_cursor` only.
    cursor = page.get("resume_cursor") or page["next_cursor"]
    polled = await _timed(connection, f"/runs?limit=50&cursor={cursor}", count)
    if polled is None:
        raise RuntimeError("the gateway refused a cursor that it has just returned")
    return polled


if __name__ == "__main__":
    serve(fill, rebuilt, reads, walk)
