"""How late is what a watcher of a run sees, and what do a thousand watchers cost the gateway?"""

import time
from typing import Any, Final

import anyio
import psutil
from harness import floor, watchers
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile
from harness.stack import Measured, measured_stack

RUNS: Final = 100
WATCHERS: Final = 100
CROWD: Final = 1000
_MIB: Final = 1024 * 1024
_POLL_SEC: Final = 0.1
_ROOM_FOR_ALL: Final = {"PYOCO_SSE_MAX_STREAMS_PER_PEER": str(2 * CROWD)}


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure one watcher, then a hundred of one run, then a thousand of many."""
    report = Report("watch", sync_name)
    latencies: list[float] = []
    bare: list[float] = []
    async with measured_stack(sync_interval, with_worker=True) as stack:
        for _ in range(rounds):
            latencies += (await measured(watchers.ends, stack.url, RUNS, 1))["latencies"]
            bare += (await measured(floor.one_by_one, stack.nats_url, RUNS, 1))["latencies"]
    for percent in (50, 99):
        least = percentile(bare, percent) * 1e3
        report.add(f"end_p{percent}", percentile(latencies, percent) * 1e3, "ms", least)
    async with measured_stack(sync_interval, with_worker=False, env=_ROOM_FOR_ALL) as stack:
        urls = watchers.both(stack.url, stack.nats_url)
        found = await measured(watchers.updates, urls, WATCHERS, 1)
        for percent in (50, 99):
            metric = f"update_p{percent}_{WATCHERS}_watchers"
            report.add(metric, percentile(found["delays"], percent) * 1e3, "ms")
        report.add("updates_seen", 100 * len(found["delays"]) / found["written"], "%")
        await _crowd(report, stack, urls)
    report.print()


async def _crowd(report: Report, stack: Measured, urls: str) -> None:
    gateway = psutil.Process(stack.gateway.pid)
    fds, rss = gateway.num_fds(), gateway.memory_info().rss
    peak_fds, peak_rss, free_at = fds, rss, 0.0
    found: dict[str, Any] = {}

    async def measure() -> None:
        found.update(await measured(watchers.crowd, urls, CROWD, 1))
        found["over_at"] = time.time()
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
    report.add("crowd_ends_seen", 100 * len(found["delays"]) / found["healthy"], "%")
    for percent in (50, 99):
        metric = f"crowd_end_p{percent}_{CROWD}_watchers"
        report.add(metric, percentile(found["delays"], percent) * 1e3, "ms")
    await anyio.sleep(1)
    report.add("gateway_rss_before", rss / _MIB, "MiB")
    report.add("gateway_rss_peak", peak_rss / _MIB, "MiB")
    report.add("gateway_rss_after", gateway.memory_info().rss / _MIB, "MiB")
    report.add("gateway_fds_before", fds, "fds")
    report.add("gateway_fds_peak", peak_fds, "fds")
    report.add("gateway_fds_after", gateway.num_fds(), "fds")
    # Those who never read hold their ends to the last: before that, only the gateway lets go.
    report.add("all_fds_free_before_end", found["over_at"] - free_at if free_at else -1.0, "s")


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "", rounds=1)
