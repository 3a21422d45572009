"""How long do list requests take with 100 runs and with 100,000 runs?"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil
from harness import reads
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile

from pyoco_testkit.stack import Stack

FEW: Final = 100
MANY: Final = 100_000
REQUESTS: Final = 300
PAGE: Final = 50


@dataclass
class FilledStack:
    """A stack with `count` stored runs, and the times measured there."""

    stack: Stack
    count: int
    rebuild_sec: float
    times: dict[str, list[float]] = field(default_factory=dict)

    async def measure(self) -> None:
        """Measure every request once more."""
        found = await measured(reads.reads, self.stack.url, REQUESTS, 1)
        walked = await measured(reads.walk, self.stack.url, self.count, PAGE)
        for name, taken in {**found, "walk_page": walked["pages"]}.items():
            self.times.setdefault(name, []).extend(taken)

    @property
    def memory_mib(self) -> float:
        """The resident memory of the gateway."""
        return psutil.Process(self.stack.gateway.pid).memory_info().rss / 2**20


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure a small and a large bucket in turn, so that noise affects both."""
    report = Report("reads", sync_name)
    async with filled_stack(MANY, sync_interval) as many, filled_stack(FEW, sync_interval) as few:
        for _ in range(rounds):
            await few.measure()
            await many.measure()
        report.add("rebuild", many.rebuild_sec, "s", few.rebuild_sec)
        report.add("gateway_memory", many.memory_mib, "MiB", few.memory_mib)
    for name, times in many.times.items():
        for percent in (50, 99):
            report.add(
                f"{name}_p{percent}",
                percentile(times, percent) * 1e3,
                "ms",
                percentile(few.times[name], percent) * 1e3,
            )
    report.print()


@asynccontextmanager
async def filled_stack(count: int, sync_interval: str | None) -> AsyncIterator[FilledStack]:
    """Start a stack with `count` stored runs; its gateway starts after they are stored."""
    async with Stack(sync_interval=sync_interval) as stack:
        await measured(reads.fill, stack.nats.url, count, 1)
        stack.gateway.terminate()
        await stack.gateway.wait()
        begun = time.time()
        await stack.start_gateway()
        rebuilt = await measured(reads.rebuilt, stack.url, count, 1)
        yield FilledStack(stack, count, rebuilt["at"] - begun)


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
