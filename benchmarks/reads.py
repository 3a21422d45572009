"""How long do lists take with 100 runs, and how long with 100,000?"""

import time
from typing import Any, Final

import psutil
from harness import reads
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile

from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack

FEW: Final = 100
MANY: Final = 100_000
ASKED: Final = 500
PAGE: Final = 200


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure the same on a small and on a large bucket; the small one is the floor."""
    report = Report("reads", sync_name)
    few = await _bucket_of(FEW, sync_interval, rounds)
    many = await _bucket_of(MANY, sync_interval, rounds)
    report.add("rebuild", many["rebuild"], "s", few["rebuild"])
    report.add("gateway_memory", many["memory"], "MiB", few["memory"])
    for name in many["times"]:
        for percent in (50, 99):
            report.add(
                f"{name}_p{percent}",
                percentile(many["times"][name], percent) * 1e3,
                "ms",
                percentile(few["times"][name], percent) * 1e3,
            )
    report.print()


async def _bucket_of(count: int, sync_interval: str | None, rounds: int) -> dict[str, Any]:
    async with Stack(sync_interval=sync_interval) as stack:
        await measured(reads.fill, stack.nats.url, count, 1)
        # Anew, with everything there already.
        await _ended(stack.gateway)
        begun = time.time()
        gateway = await stack.start_gateway()
        rebuilt = await measured(reads.rebuilt, stack.url, count, 1)
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            found = await measured(reads.reads, stack.url, ASKED, 1)
            found["walk_page"] = (await measured(reads.walk, stack.url, count, PAGE))["pages"]
            for name, taken in found.items():
                times.setdefault(name, []).extend(taken)
        memory = psutil.Process(gateway.pid).memory_info().rss / 2**20
        return {"rebuild": rebuilt["at"] - begun, "memory": memory, "times": times}


async def _ended(process: ManagedProcess) -> None:
    process.terminate()
    await process.wait()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
