"""How late does a watcher see a change of a run, and what do a thousand watchers cost?"""

import time
from typing import Any, Final

import anyio
import psutil
from harness import floor, watchers
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile
from harness.stack import MeasuredStack, measured_stack

RUNS: Final = 100
WATCHERS: Final = 100
MANY_WATCHERS: Final = 1000
_MIB: Final = 1024 * 1024
_POLL_SEC: Final = 0.1
_STREAM_LIMIT: Final = {"PYOCO_SSE_MAX_STREAMS_PER_PEER": str(2 * MANY_WATCHERS)}


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure one watcher, then a hundred of one run, then a thousand of many runs."""
    report = Report("watch", sync_name)
    latencies: list[float] = []
    bare: list[float] = []
    async with measured_stack(sync_interval, with_worker=True) as stack:
        for _ in range(rounds):
            latencies += (await measured(watchers.ends, stack.url, RUNS, 1))["latencies"]
            bare += (await measured(floor.one_by_one, stack.nats_url, RUNS, 1))["latencies"]
    for percent in (50, 99):
        floor_ms = percentile(bare, percent) * 1e3
        report.add(f"end_p{percent}", percentile(latencies, percent) * 1e3, "ms", floor_ms)
    async with measured_stack(sync_interval, with_worker=False, env=_STREAM_LIMIT) as stack:
        urls = watchers.both(stack.url, stack.nats_url)
        found = await measured(watchers.updates, urls, WATCHERS, 1)
        for percent in (50, 99):
            metric = f"update_p{percent}_{WATCHERS}_watchers"
            report.add(metric, percentile(found["delays"], percent) * 1e3, "ms")
        report.add("updates_seen", 100 * len(found["delays"]) / found["written"], "%")
        await _measure_many(report, stack, urls)
    report.print()


async def _measure_many(report: Report, stack: MeasuredStack, urls: str) -> None:
    gateway = psutil.Process(stack.gateway.pid)
    fds, rss = gateway.num_fds(), gateway.memory_info().rss
    peak_fds, peak_rss, free_at = fds, rss, 0.0
    found: dict[str, Any] = {}

    async def measure() -> None:
        found.update(await measured(watchers.many_runs, urls, MANY_WATCHERS, 1))
        found["ended_at"] = time.time()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure)
        while True:
            await anyio.sleep(_POLL_SEC)
            open_now = gateway.num_fds()
            peak_rss = max(peak_rss, gateway.memory_info().rss)
            peak_fds = max(peak_fds, open_now)
            if open_now <= fds < peak_fds:
                free_at = free_at or time.time()
    report.add("many_runs_ends_seen", 100 * len(found["delays"]) / found["healthy"], "%")
    for percent in (50, 99):
        metric = f"many_runs_end_p{percent}_{MANY_WATCHERS}_watchers"
        report.add(metric, percentile(found["delays"], percent) * 1e3, "ms")
    await anyio.sleep(1)
    report.add("gateway_rss_before", rss / _MIB, "MiB")
    report.add("gateway_rss_peak", peak_rss / _MIB, "MiB")
    report.add("gateway_rss_after", gateway.memory_info().rss / _MIB, "MiB")
    report.add("gateway_fds_before", fds, "fds")
    report.add("gateway_fds_peak", peak_fds, "fds")
    report.add("gateway_fds_after", gateway.num_fds(), "fds")
    # Stalled readers close last: descriptors that are free before that were freed by the gateway.
    report.add("all_fds_free_before_end", found["ended_at"] - free_at if free_at else -1.0, "s")


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "", rounds=1)
