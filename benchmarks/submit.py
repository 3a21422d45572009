"""How many submissions per second does one gateway accept from 1, 16 and 64 clients at once?"""

from statistics import median
from typing import Final

from harness import floor, load
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile
from harness.stack import measured_stack

# More clients submit more runs, so that each measurement lasts a second or two.
COUNTS: Final = {1: 600, 16: 2000, 64: 3000}


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure the gateway and the floor in turn, so that noise affects both."""
    report = Report("submit", sync_name)
    async with measured_stack(sync_interval, with_worker=False) as stack:
        for clients, count in COUNTS.items():
            ours, bare = [], []
            for _ in range(rounds):
                ours.append(await measured(load.submissions, stack.url, count, clients))
                bare.append(await measured(floor.submissions, stack.nats_url, count, clients))
            report.add(
                f"throughput_{clients}_clients",
                median(count / each["seconds"] for each in ours),
                "runs/s",
                median(count / each["seconds"] for each in bare),
            )
            for percent in (50, 99):
                report.add(
                    f"latency_p{percent}_{clients}_clients",
                    median(percentile(each["latencies"], percent) * 1e3 for each in ours),
                    "ms",
                    median(percentile(each["latencies"], percent) * 1e3 for each in bare),
                )
    report.print()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
