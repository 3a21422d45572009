"""A `PyocoNatsWorker` in the process of a test, and resolvers that cannot be imported."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pyoco import task
from pyoco.core.models import Flow

from pyoco_worker import PyocoNatsWorker


def flow_of(function: Callable[..., object]) -> Flow:
    flow = Flow(name="flow")
    flow >> task(function)
    return flow


def resolver_of(*functions: Callable[..., object]) -> Callable[[str], Flow]:
    """Return a closure: no new process can import it by name."""
    named = {function.__name__: function for function in functions}

    def resolve(flow_name: str) -> Flow:
        return flow_of(named[flow_name])

    return resolve


@asynccontextmanager
async def connected(*args: Any, **named: Any) -> AsyncGenerator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(*args, **named)
    try:
        yield worker
    finally:
        await worker.close()
