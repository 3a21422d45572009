"""How long does a cancel take, from POST to CANCELLED, if the flow checks for cancellation?"""

from typing import Final

from harness import load
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile
from harness.stack import measured_stack

RUNS: Final = 200


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure cancels one by one; the flow checks every 10 ms whether it was cancelled."""
    report = Report("cancel", sync_name)
    latencies: list[float] = []
    async with measured_stack(sync_interval, with_worker=True) as stack:
        for _ in range(rounds):
            latencies += (await measured(load.cancels, stack.url, RUNS, 1))["latencies"]
    for percent in (50, 95, 99):
        report.add(f"p{percent}", percentile(latencies, percent) * 1e3, "ms")
    report.add("max", max(latencies) * 1e3, "ms")
    report.print()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "", rounds=1)
