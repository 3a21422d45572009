"""What do commands, reads and lists of executions cost, and what do long logs cost?"""

import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import psutil
from harness import execution_fill, execution_load, execution_reads
from harness.options import run_benchmark
from harness.processes import measured
from harness.report import Report, percentile

from pyoco_testkit.environment import command_path
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack, free_port

CLIENTS: Final = (1, 64)
EXECUTIONS: Final = 1_000
LOG_EVENTS: Final = (10, 1_000, 100_000)
LISTED: Final = 100_000
REQUESTS: Final = 100
# How many executions are written by how many clients at once.
CONTENDED: Final = 5
WRITERS: Final = 8


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure commands beside bare appends, then logs, then lists."""
    report = Report("executions", sync_name)
    async with Stack(sync_interval=sync_interval) as stack:
        graph_seq = await put_graph(stack.url)
        await put_graph(
            stack.url, execution_load.CONTENDED_GRAPH_ID, execution_load.CONTENDED_GRAPH
        )
        await measure_commands(report, stack, rounds)
        await measure_contention(report, stack, rounds)
        await measure_logs(report, stack, graph_seq)
    async with Stack(sync_interval=sync_interval) as stack:
        await measure_lists(report, stack, await put_graph(stack.url))
    report.print()


async def put_graph(
    url: str,
    graph_id: str = execution_load.GRAPH_ID,
    graph: Mapping[str, Any] = execution_load.GRAPH,
) -> int:
    """Store a graph; return the sequence of the first one in an empty stream."""
    async with httpx.AsyncClient(base_url=url) as http:
        while True:
            path = f"/graphs/{graph_id}"
            stored = await http.put(path, content=json.dumps(graph), headers=JSON)
            if stored.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                stored.raise_for_status()
                return 1


JSON: Final = {"Content-Type": "application/json"}


async def measure_commands(report: Report, stack: Stack, rounds: int) -> None:
    """Measure the gateway and bare appends in turn, so that noise affects both."""
    with bare_appends(stack.nats.url) as bare_url:
        for clients in CLIENTS:
            ours, bare = [], []
            for _ in range(rounds):
                ours.append(await measured(execution_load.commands, stack.url, EXECUTIONS, clients))
                bare.append(await measured(execution_load.commands, bare_url, EXECUTIONS, clients))
            commands = EXECUTIONS * execution_load.COMMANDS
            report.add(
                f"commands_{clients}_clients",
                median(commands / each["seconds"] for each in ours),
                "commands/s",
                median(commands / each["seconds"] for each in bare),
            )
            for percent in (50, 99):
                report.add(
                    f"command_p{percent}_{clients}_clients",
                    median(percentile(each["latencies"], percent) * 1e3 for each in ours),
                    "ms",
                    median(percentile(each["latencies"], percent) * 1e3 for each in bare),
                )


async def measure_contention(report: Report, stack: Stack, rounds: int) -> None:
    """Measure writers of one execution through two gateways."""
    async with another_gateway(stack) as other:
        urls = f"{stack.url},{other}"
        found = [
            await measured(execution_load.contended, urls, CONTENDED, WRITERS)
            for _ in range(rounds)
        ]
    rates = (len(each["latencies"]) / each["seconds"] for each in found)
    report.add("contended_commands", median(rates), "commands/s")
    p99 = median(percentile(each["latencies"], 99) * 1e3 for each in found)
    report.add("contended_command_p99", p99, "ms")


@asynccontextmanager
async def another_gateway(stack: Stack) -> AsyncGenerator[str]:
    """Start another gateway on the broker of a stack; give its address."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [
        *(str(command_path("pyoco-server")), "up", "--host", "127.0.0.1", "--port", str(port)),
        *("--nats-url", stack.nats.url, "--log-level", "warning"),
    ]
    async with ManagedProcess("gateway-2", command, stack.directory / "gateway-2", stack.env):
        await measured(execution_reads.ready, url, 0, 0)
        yield url


@contextmanager
def bare_appends(nats_url: str) -> Iterator[str]:
    """Start the server of bare appends; give its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "harness.bare_appends", nats_url],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def measure_logs(report: Report, stack: Stack, graph_seq: int) -> None:
    """Measure commands and past states by the length of the log; the floor is the shortest."""
    logs = []
    for events in LOG_EVENTS:
        logs.append(await measured(execution_fill.long, stack.nats.url, events, graph_seq))
    # The first command then meets no state in memory.
    await restart_gateway(stack)
    floors: dict[str, float] = {}
    for events, log in zip(LOG_EVENTS, logs, strict=True):
        times = await measured(
            execution_reads.one_log, stack.url, REQUESTS, log["seq"], log["execution_id"]
        )
        for name, taken in times.items():
            value = median(taken) * 1e3
            report.add(f"{name}_{events}_events", value, "ms", floors.setdefault(name, value))


async def measure_lists(report: Report, stack: Stack, graph_seq: int) -> None:
    """Measure lists with many executions."""
    await measured(execution_fill.many, stack.nats.url, LISTED, graph_seq)
    began = await restart_gateway(stack)
    rebuilt = await measured(execution_reads.ready, stack.url, 0, 0)
    report.add(f"rebuild_{LISTED}", rebuilt["at"] - began, "s")
    memory = psutil.Process(stack.gateway.pid).memory_info().rss
    report.add(f"gateway_memory_{LISTED}", memory / 2**20, "MiB")
    times = await measured(execution_reads.lists, stack.url, REQUESTS, 1)
    for name, taken in times.items():
        for percent in (50, 99):
            report.add(f"{name}_p{percent}", percentile(taken, percent) * 1e3, "ms")


async def restart_gateway(stack: Stack) -> float:
    """Restart the gateway; return when it was started."""
    stack.gateway.terminate()
    await stack.gateway.wait()
    began = time.time()
    await stack.start_gateway()
    await measured(execution_reads.ready, stack.url, 0, 0)
    return began


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "")
