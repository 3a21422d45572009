"""Many wrong keys, and those who have a right one meanwhile."""

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
# One after the other with quiet between them: whatever else this machine does meanwhile slows
# down both.
WAVES: Final = 5
REQUESTS: Final = 20_000
CONNECTIONS: Final = 16
AT_MOST: Final = 2.0


async def submit_seconds(stack: Stack) -> float:
    began = time.perf_counter()
    await stack.client.submit("nothing", tag="nobody")
    return time.perf_counter() - began


@pytest.mark.timeout(180)
async def test_20_000_wrong_keys_do_not_slow_a_good_client_down_by_more_than_twice() -> None:
    """PITFALLS 13: no key costs more than microseconds, and wrong ones are held off."""
    quiet: list[float] = []
    flooded: list[float] = []
    answered: Counter[str] = Counter()
    async with ApiKeyStack() as stack:
        held = await stack.issue_key("runs:read")
        # The id of a key that exists: what is done for it is what there is to do.
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
    assert statistics.median(flooded) < AT_MOST * statistics.median(quiet)
