"""Starts the measured processes; each benchmark gets new ones."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness import load
from harness.processes import measured
from pyoco_testkit.processes import ManagedProcess
from pyoco_testkit.stack import Stack, flows_at


@dataclass(frozen=True, slots=True)
class MeasuredStack:
    """The measured processes and their addresses."""

    url: str
    nats_url: str
    gateway: ManagedProcess
    broker: ManagedProcess
    worker: ManagedProcess | None


@asynccontextmanager
async def measured_stack(
    sync_interval: str | None,
    *,
    with_worker: bool,
    children: int | None = None,
    tags: Sequence[str] = ("default",),
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[MeasuredStack]:
    """Start and warm up a broker, a gateway and optionally a worker with one child per core."""
    async with Stack(sync_interval=sync_interval, env=env) as stack:
        broker = stack.nats.process
        if not with_worker:
            await measured(load.submissions, stack.url, 50, 4)
            yield MeasuredStack(stack.url, stack.nats.url, stack.gateway, broker, None)
            return
        flows = flows_at(Path(__file__).with_name("flows.py"))
        concurrency = children or os.cpu_count() or 1
        async with stack.worker(tags, flows=flows, concurrency=concurrency) as worker:
            await measured(load.completions, stack.url, 50, 4)
            yield MeasuredStack(stack.url, stack.nats.url, stack.gateway, broker, worker)


def cpu_seconds(process: ManagedProcess) -> float:
    """Return the CPU time of a process, including children that have ended."""
    root = psutil.Process(process.pid)
    total = 0.0
    for each in (root, *root.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system
    times = root.cpu_times()
    return total + times.children_user + times.children_system
