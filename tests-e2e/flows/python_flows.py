"""Flows for the end-to-end tests."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import task
from pyoco.core.models import Flow


def resolve(flow_name: str) -> Flow:
    """Return a new flow of this name; raise KeyError for an unknown name."""
    flow = Flow(name=flow_name)
    for step in FLOWS[flow_name]:
        # A task object keeps the edges of every flow it is part of, so each flow gets new tasks.
        flow >> task(step)
    return flow


def noop() -> None:
    """Do nothing."""


def greet(ctx: Any) -> str:
    """Return a greeting for the param `name`."""
    return f"Hello, {ctx.params.get('name', 'world')}!"


def shout(greet: str) -> str:
    """Return the output of the previous task in upper case."""
    return greet.upper()


def fail() -> None:
    """Raise ValueError."""
    raise ValueError("the shop is closed")


def fragile(ctx: Any) -> str:
    """Return the content of the file `needs`; raise if it does not exist."""
    return Path(ctx.params["needs"]).read_text(encoding="utf-8")


def nap(ctx: Any) -> str:
    """Sleep for the param `seconds`, or until cancelled."""
    until = time.monotonic() + float(ctx.params.get("seconds", 1))
    while time.monotonic() < until and not ctx.is_cancelled:
        time.sleep(0.01)
    return "rested"


def deaf(ctx: Any) -> None:
    """Sleep for the param `seconds` without checking for a cancel."""
    time.sleep(float(ctx.params.get("seconds", 60)))


def leave(ctx: Any) -> None:
    """End the process with an exit code."""
    os._exit(int(ctx.params.get("code", 3)))


def crash() -> None:
    """Crash the process by reading address 0."""
    ctypes.string_at(0)


def ledger(ctx: Any) -> None:
    """Append run id, attempt and process id to the file `ledger`."""
    line = f"{os.environ['PYOCO_RUN_ID']} {os.environ['PYOCO_ATTEMPT']} {os.getpid()}\n"
    with Path(ctx.params["ledger"]).open("a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def large(ctx: Any) -> str:
    """Return a text of `bytes` bytes."""
    return "x" * int(ctx.params.get("bytes", 2 * 1024 * 1024))


def surroundings() -> dict[str, Any]:
    """Return the working directory, its files and the environment of the flow."""
    Path("note.txt").write_text("left behind", encoding="utf-8")
    return {
        "cwd": str(Path.cwd()),
        "files": sorted(path.name for path in Path.cwd().iterdir()),
        "environment": dict(os.environ),
    }


def grandchild() -> int:
    """Start a process that sleeps for ten minutes."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return sleeper.pid


def busy(ctx: Any) -> int:
    """Use the CPU for the param `seconds`."""
    until = time.monotonic() + float(ctx.params["seconds"])
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
    return rounds


def greedy() -> bool:
    """Hold the interpreter lock for several seconds with one long multiplication."""
    number: int = 9**9**7
    return number > 1


def poison() -> None:
    """Kill the worker process with SIGKILL."""
    os.kill(os.getppid(), signal.SIGKILL)


def talk(ctx: Any) -> None:
    """Print a line, wait for the file `until`, and print two more lines."""
    print("I am waiting")  # noqa: T201 - flows print
    while not Path(ctx.params["until"]).exists() and not ctx.is_cancelled:
        time.sleep(0.01)
    print("at last", file=sys.stderr)  # noqa: T201 - flows print
    os.system("echo done")  # noqa: S605, S607 - output of another program


def chatter(ctx: Any) -> None:
    """Print the param `lines` lines."""
    for number in range(int(ctx.params["lines"])):
        print(f"line {number}")  # noqa: T201 - flows print


FLOWS: dict[str, tuple[Callable[..., object], ...]] = {
    "noop": (noop,),
    "greet": (greet, shout),
    "fail": (greet, fail, shout),
    "fragile": (ledger, fragile),
    "nap": (nap,),
    "deaf": (deaf,),
    "leave": (leave,),
    "crash": (crash,),
    "ledger": (ledger,),
    "ledger-nap": (ledger, nap),
    "nap-ledger": (nap, ledger),
    "large": (large,),
    "busy": (ledger, busy),
    "greedy": (ledger, greedy),
    "poison": (poison,),
    "surroundings": (surroundings,),
    "grandchild": (grandchild, nap),
    "talk": (talk, greet),
    "chatter": (chatter,),
    "日本語のフロー": (greet, shout),
    "日次売上レポートの作成と配信": (greet, talk, shout),
}
