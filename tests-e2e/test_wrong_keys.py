"""Many requests with wrong keys do not slow down a client with a valid key."""

import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import anyio
import pytest

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.stack import Stack

FLOOD: Final = Path(__file__).with_name("flood.py")
# Floods alternate with quiet periods, so that other load on the machine affects both.
WAVES: Final = 5
REQUESTS: Final = 20_000
CONNECTIONS: Final = 16
MAX_RATIO: Final = 2.0


async def submit_seconds(stack: Stack) -> float:
    began = time.perf_counter()
    await stack.client.submit("nothing", tag="unserved")
    return time.perf_counter() - began


@pytest.mark.timeout(180)
async def test_a_flood_of_wrong_keys_at_most_doubles_the_latency_of_a_valid_client() -> None:
    """PITFALLS 13: checking a key takes microseconds, and wrong keys are rate limited."""
    quiet: list[float] = []
    flooded: list[float] = []
    answered: Counter[str] = Counter()
    async with ApiKeyStack() as stack:
        held = await stack.issue_key("runs:read")
        # The id of an existing key, which makes the check as expensive as possible.
        wrong = f"X-API-Key: {held[:-43]}{'A' * 43}"
        command = [sys.executable, str(FLOOD), "127.0.0.1", str(stack.port), wrong]
        command += [str(REQUESTS // WAVES), str(CONNECTIONS)]

        async def flood() -> None:
            done = await anyio.run_process(command)
            answered.update(json.loads(done.stdout))

        for _ in range(50):
            await submit_seconds(stack)
        for wave in range(1, WAVES + 1):
            quiet += [await submit_seconds(stack) for _ in range(100)]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flood)
                while answered.total() < wave * REQUESTS // WAVES:
                    flooded.append(await submit_seconds(stack))
        quiet += [await submit_seconds(stack) for _ in range(100)]

    assert answered.keys() == {"403", "429"}
    assert answered["403"] < REQUESTS // 100
    assert len(flooded) > len(quiet) // 4
    assert statistics.median(flooded) < MAX_RATIO * statistics.median(quiet)
