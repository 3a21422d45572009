"""Three demo flows: one that succeeds, a long one, and one that fails.

A standalone file, not a module of the gateway: only a worker loads it, by its path
(`pyoco-worker --flow-resolver .../flows.py:resolve`).
"""

import time
from collections.abc import Callable
from typing import Any, Final

from pyoco import Flow, task

_TICK_SEC: Final = 0.1
_LONGEST_SEC: Final = 86_400


# hello: greets `name`, in three tasks.


def choose_name(ctx: Any) -> str:
    """Return the name to greet."""
    return str(ctx.params.get("name", "world"))


def greet(choose_name: str) -> str:
    """Return the greeting; an argument with the name of a task receives its result."""
    return f"Hello, {choose_name}!"


def count_letters(greet: str) -> dict[str, Any]:
    """Return the greeting and its length."""
    print(greet)  # noqa: T201 - stored as output of the run
    return {"greeting": greet, "letters": len(greet)}


# countdown: counts `seconds` down to zero; a cancel stops it within a tick.


def prepare(ctx: Any) -> float:
    """Return the number of seconds to count."""
    seconds = float(ctx.params.get("seconds", 60))
    if not 0 <= seconds <= _LONGEST_SEC:
        raise ValueError(f"seconds must be between 0 and {_LONGEST_SEC}, not {seconds:g}")
    return seconds


def count_down(ctx: Any, prepare: float) -> dict[str, float]:
    """Return the seconds to count, and the seconds left when the run was cancelled."""
    end = time.monotonic() + prepare
    shown = None
    while (left := end - time.monotonic()) > 0 and not ctx.is_cancelled:
        if round(left) != shown:
            shown = round(left)
            print(f"{shown} s to go")  # noqa: T201 - stored as output of the run
        time.sleep(min(left, _TICK_SEC))
    return {"seconds": prepare, "left": round(max(end - time.monotonic(), 0.0), 1)}


def lift_off(count_down: dict[str, float]) -> str:
    """Return a final message."""
    return f"Lift-off after {count_down['seconds']:g} s"


# broken: fails in its second task, to show what a failure looks like.


def load() -> list[int]:
    """Return some numbers."""
    return [3, 1, 0]


def invert(load: list[int]) -> list[float]:
    """Raise ValueError, because one of the numbers is 0."""
    if 0 in load:
        raise ValueError("cannot invert the 0 in [3, 1, 0]: this flow fails on purpose")
    return [1 / number for number in load]


def report(invert: list[float]) -> int:
    """Return the number of results; never runs, because `invert` fails."""
    return len(invert)


_STEPS: Final[dict[str, tuple[Callable[..., Any], ...]]] = {
    "hello": (choose_name, greet, count_letters),
    "countdown": (prepare, count_down, lift_off),
    "broken": (load, invert, report),
}


def resolve(flow_name: str) -> Flow:
    """Return a new flow; raise KeyError for an unknown name.

    A task that is shared between flows would collect the edges of all of them.
    """
    flow = Flow(name=flow_name)
    for step in _STEPS[flow_name]:
        flow = flow >> task(step)
    return flow
