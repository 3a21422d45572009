"""How much CPU time and how many bucket writes does one run of a no-op flow cost?"""

from statistics import median
from typing import Final

from harness import floor, load
from harness.broker_view import broker_view
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report
from harness.stack import cpu_seconds, measured_stack

RUNS: Final = 500
IN_FLIGHT: Final = 64

# The record of a run is created, claimed and ended.
MIN_KV_WRITES: Final = 3


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure the CPU time of each process until the queue is empty."""
    report = Report("cost", sync_name)
    cpu_used: dict[str, list[float]] = {"gateway": [], "worker": [], "broker": []}
    writes: list[float] = []
    bare_process: list[float] = []
    bare_broker: list[float] = []
    async with (
        measured_stack(sync_interval, with_worker=True) as stack,
        broker_view(stack.nats_url) as view,
    ):
        assert stack.worker is not None
        processes = {"gateway": stack.gateway, "worker": stack.worker, "broker": stack.broker}
        for _ in range(rounds):
            before = {name: cpu_seconds(process) for name, process in processes.items()}
            writes_before = await view.kv_writes()
            await measured(load.submissions, stack.url, RUNS, IN_FLIGHT)
            await view.wait_until_idle()
            for name, process in processes.items():
                cpu_used[name].append((cpu_seconds(process) - before[name]) / RUNS)
            writes.append((await view.kv_writes() - writes_before) / RUNS)
            broker_before = cpu_seconds(stack.broker)
            bare = await measured(floor.completions, stack.nats_url, RUNS, IN_FLIGHT)
            bare_broker.append((cpu_seconds(stack.broker) - broker_before) / RUNS)
            bare_process.append(bare["cpu_seconds"] / RUNS)
    ours = {name: median(values) * 1e3 for name, values in cpu_used.items()}
    floor_process, floor_broker = median(bare_process) * 1e3, median(bare_broker) * 1e3
    report.add("cpu_gateway", ours["gateway"], "ms/run")
    report.add("cpu_worker_and_children", ours["worker"], "ms/run")
    report.add("cpu_broker", ours["broker"], "ms/run", floor_broker)
    report.add("cpu_total", sum(ours.values()), "ms/run", floor_process + floor_broker)
    report.add("kv_writes", median(writes), "writes/run", MIN_KV_WRITES)
    report.print()


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
