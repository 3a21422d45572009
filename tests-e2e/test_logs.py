"""The output and the result of a run can be read during the run and afterwards."""

import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

QUICK = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "3",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "1",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "1",
}


@pytest.fixture
def signal(tmp_path: Path) -> Path:
    """Return the path of a file that flows wait for."""
    return tmp_path / "go-on"


def create_signal(signal: Path) -> None:
    """Create the file that flows wait for."""
    signal.touch()


async def printed(stack: Stack, run_id: str, **query: Any) -> list[str]:
    answer = await stack.client.http.get(f"/runs/{run_id}/logs", params=query)
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["items"]]


async def followed(stack: Stack, run_id: str) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """Yield the events of a run's output stream until it ends."""
    kind = ""
    asked = stack.client.http.stream("GET", f"/runs/{run_id}/logs", params={"follow": "1"})
    async with asked as answer:
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


async def test_output_is_readable_while_the_run_is_running(
    stack: Stack, flows: str, signal: Path
) -> None:
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("talk", params={"until": str(signal)})
        await eventually(lambda: printed(stack, run_id), ["I am waiting"])
        assert await stack.client.status(run_id) == "RUNNING"
        seen: list[tuple[str, str]] = []
        ended_at = 0.0
        with anyio.fail_after(20):
            async for kind, data in followed(stack, run_id):
                if kind == "log":
                    seen += [(item["task"], item["text"]) for item in data["items"]]
                    if not ended_at:
                        # The first line has arrived while the run is still waiting.
                        create_signal(signal)
                        ended_at = time.monotonic()
        assert kind == "end"
        assert time.monotonic() - ended_at < 5
        ended = await stack.client.get(run_id)
        assert await printed(stack, run_id, stream="stderr") == ["at last"]
    assert seen == [("talk", "I am waiting"), ("talk", "at last"), (None, "done")]
    assert (ended["status"], ended["result"]) == ("COMPLETED", {"greet": "Hello, world!"})


async def test_each_attempt_has_its_own_output(tmp_path: Path, flows: str, signal: Path) -> None:
    async with Stack(tmp_path / "stack", env=QUICK) as stack:
        async with stack.worker(flows=flows) as doomed:
            run_id = await stack.client.submit("talk", params={"until": str(signal)})
            await eventually(lambda: printed(stack, run_id), ["I am waiting"])
            doomed.kill()
        create_signal(signal)
        async with stack.worker(flows=flows):
            ended = await stack.client.wait(run_id)
        assert (ended["status"], ended["attempt"]) == ("COMPLETED", 2)
        whole = ["I am waiting", "at last", "done"]
        assert await printed(stack, run_id) == whole
        assert await printed(stack, run_id, attempt=1) == ["I am waiting"]
        assert await printed(stack, run_id, attempt="all") == ["I am waiting", *whole]


async def test_the_result_is_part_of_the_run_and_is_truncated_when_large(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows):
        small = await stack.client.submit("greet", params={"name": "世界"})
        large = await stack.client.submit("large", params={"bytes": 100_000})
        larger = await stack.client.submit("large", params={"bytes": 2_000_000})
        failed = await stack.client.submit("fail")
        ends = [await stack.client.wait(run_id) for run_id in (small, large, larger, failed)]
    assert [end["result"] for end in ends] == [
        {"shout": "HELLO, 世界!"},
        {"large": {"$truncated": True, "size_bytes": 100_002}},
        {"large": {"$truncated": True}},
        None,
    ]
    assert [end["result_truncated"] for end in ends] == [False, True, True, False]


async def test_output_above_the_limit_is_truncated_and_the_run_completes(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows, env={"PYOCO_RUN_LOG_MAX_BYTES": "20000"}):
        run_id = await stack.client.submit("chatter", params={"lines": 100_000})
        assert (await stack.client.wait(run_id))["status"] == "COMPLETED"
        answer = (await stack.client.http.get(f"/runs/{run_id}/logs?limit=1000")).json()
    assert answer["truncated"]
    assert answer["next_cursor"] is None
    assert "20000" in answer["items"][-1]["text"]
    assert len(answer["items"]) < 1000
