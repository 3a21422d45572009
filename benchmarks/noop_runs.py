"""How long do 500 runs of a no-op flow take with one worker, end to end?"""

from statistics import median
from typing import Final

from harness import floor, load
from harness.broker_view import broker_view
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report
from harness.stack import measured_stack

RUNS: Final = 500
IN_FLIGHT: Final = 64


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure from the first submission to the last end, seen by a bucket watcher and by GET."""
    report = Report("noop_runs", sync_name)
    watched, over_http, bare = [], [], []
    async with (
        measured_stack(sync_interval, with_worker=True) as stack,
        broker_view(stack.nats_url) as view,
    ):
        for _ in range(rounds):
            async with view.watching_ends() as ends:
                ours = await measured(load.submissions, stack.url, RUNS, IN_FLIGHT)
                watched.append(await ends.wait_for(RUNS) - ours["began_at"])
            # The same with a client that polls each run until it has ended.
            polled = await measured(load.completions, stack.url, RUNS, IN_FLIGHT)
            if polled["unexpected"]:
                raise RuntimeError(f"not all runs completed: {polled['unexpected']}")
            over_http.append(polled["seen_at"] - polled["began_at"])
            bare.append(await measured(floor.completions, stack.nats_url, RUNS, IN_FLIGHT))
    floor_sec = median(each["seconds"] for each in bare)
    report.add("seconds_seen_by_watcher", median(watched), "s", floor_sec)
    report.add("seconds_seen_over_http", median(over_http), "s", floor_sec)
    report.add("throughput", RUNS / median(watched), "runs/s", RUNS / floor_sec)
    report.print()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
