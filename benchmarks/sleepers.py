"""How long do 20 runs that sleep for half a second take with 20 children?"""

from statistics import median
from typing import Final

from harness import load
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report
from harness.stack import measured_stack

RUNS: Final = 20
NAP_SEC: Final = 0.5


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure from the first submission until GET shows the end of the last run."""
    report = Report("sleepers", sync_name)
    seconds = []
    async with measured_stack(sync_interval, with_worker=True, children=RUNS) as stack:
        for _ in range(rounds):
            found = await measured(load.sleepers, stack.url, RUNS, RUNS)
            seconds.append(found["seen_at"] - found["began_at"])
    report.add("seconds", median(seconds), "s", NAP_SEC)
    report.print()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
