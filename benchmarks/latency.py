"""How long does one run take on an idle system, from POST until GET shows COMPLETED?"""

from typing import Final

from harness import floor, load
from harness.broker_view import broker_view
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile
from harness.stack import measured_stack

RUNS: Final = 100


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure runs one by one; the percentiles cover all rounds together."""
    report = Report("latency", sync_name)
    ours: list[float] = []
    bare: list[float] = []
    async with measured_stack(sync_interval, with_worker=True) as stack:
        for _ in range(rounds):
            ours += (await measured(load.one_by_one, stack.url, RUNS, 1))["latencies"]
            bare += (await measured(floor.one_by_one, stack.nats_url, RUNS, 1))["latencies"]
    for percent in (50, 95, 99):
        report.add(
            f"p{percent}", percentile(ours, percent) * 1e3, "ms", percentile(bare, percent) * 1e3
        )
    for tags in (1, 20):
        watched = await _watched_latencies(sync_interval, tags)
        for percent in (50, 99):
            metric = f"p{percent}_watched_{tags}_tag{'s' if tags > 1 else ''}"
            report.add(metric, percentile(watched, percent) * 1e3, "ms")
    report.print()


async def _watched_latencies(sync_interval: str | None, tags: int) -> list[float]:
    """Return the seconds from submitting each run until a bucket watcher sees its end."""
    names = ["default", *(f"tag-{number}" for number in range(1, tags))]
    async with (
        measured_stack(sync_interval, with_worker=True, tags=names) as stack,
        broker_view(stack.nats_url) as view,
        view.watching_ends() as ends,
    ):
        sent = (await measured(load.spaced, stack.url, RUNS, 1))["sent"]
        await ends.wait_for(RUNS)
    return [ends.at[run_id] - at for run_id, at in sent.items()]


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "", rounds=1)
