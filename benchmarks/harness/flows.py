"""Flows that do nothing or wait, so that measured time is the overhead of the system."""

import time
from collections.abc import Callable
from typing import Any

from pyoco import task
from pyoco.core.models import Flow


def _nothing() -> None:
    return None


def _half_a_second() -> None:
    time.sleep(0.5)


def _until_cancelled(ctx: Any) -> None:
    while not ctx.is_cancelled:
        time.sleep(0.01)


_STEPS: dict[str, Callable[..., None]] = {
    "noop": _nothing,
    "sleep": _half_a_second,
    "wait": _until_cancelled,
}


def resolve(name: str) -> Flow:
    """Return a flow with one task."""
    flow = Flow(name=name)
    flow >> task(_STEPS[name])
    return flow
