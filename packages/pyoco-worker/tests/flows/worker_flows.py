"""Flows of the worker's tests. CHAINS names the functions of each flow."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import task
from pyoco.core.models import Flow, Task


def resolve(flow_name: str) -> Flow:
    """Return a new flow by name; raise KeyError for an unknown name."""
    if flow_name in WHOLE:
        return WHOLE[flow_name]()
    flow = Flow(name=flow_name)
    for step in CHAINS[flow_name]:
        # A task keeps the edges of every flow it is added to, so each flow gets new tasks.
        flow >> task(step)
    return flow


def resolve_slowly(flow_name: str) -> Flow:
    """Return a flow after blocking the process for three seconds."""
    time.sleep(3)
    return resolve(flow_name)


def note(ctx: Any) -> None:
    """Add a line to the file `ledger`, so that a test can count executions."""
    token = os.environ  # noqa: TID251 - flows read their run id and attempt here
    line = f"{token['PYOCO_RUN_ID']} {token['PYOCO_ATTEMPT']}\n"
    with Path(ctx.params["ledger"]).open("a", encoding="utf-8") as file:
        file.write(line)


def noop() -> None:
    """Do nothing."""


def blink() -> None:
    """Sleep for 10 to 30 ms."""
    time.sleep(0.01 + time.monotonic() % 0.02)


def greet(ctx: Any) -> str:
    """Return a greeting."""
    return f"Hello, {ctx.params.get('name', 'world')}!"


def shout(greet: str) -> str:
    """Return the greeting in capitals."""
    return greet.upper()


def fail() -> None:
    """Raise."""
    raise ValueError("the shop is closed")


def wait_for_file(ctx: Any) -> str:
    """Wait until the file `until` exists or the run is cancelled."""
    Path(ctx.params["began"]).touch()
    while not Path(ctx.params["until"]).exists():
        if ctx.is_cancelled:
            return "cancelled"
        time.sleep(0.005)
    return "went on"


def hold_the_interpreter(ctx: Any) -> int:
    """Block all other threads of the process for `seconds`."""
    until = time.monotonic() + float(ctx.params["seconds"])
    sys.setswitchinterval(60)
    count = 0
    while time.monotonic() < until:
        count += 1
    return count


def leave() -> None:
    """End the process."""
    sys.stdout.write("leaving now\n")
    os._exit(3)


def crash() -> None:
    """Crash with a segmentation fault."""
    ctypes.string_at(0)


def kill_itself() -> None:
    """Kill the process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def exit_politely() -> None:
    """Raise SystemExit."""
    sys.exit("enough")


def interrupt() -> None:
    """Raise KeyboardInterrupt."""
    raise KeyboardInterrupt


def print_much(ctx: Any) -> str:
    """Print some megabytes, and start a program that prints."""
    for _ in range(int(ctx.params.get("megabytes", 5))):
        sys.stdout.write("x" * 1_000_000)
        sys.stderr.write("y" * 1_000_000)
    subprocess.run([sys.executable, "-c", "print('z' * 1_000_000)"], check=True)
    return "printed"


def large(ctx: Any) -> str:
    """Return a text of `bytes` bytes."""
    return "x" * int(ctx.params["bytes"])


def hostile() -> dict[str, object]:
    """Return values that JSON cannot represent."""

    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    loop: list[object] = []
    loop.append(loop)
    return {"nan": float("nan"), "odd": Hostile(), "loop": loop, "half": "\ud800", "big": 10**5000}


def change_params(ctx: Any) -> dict[str, Any]:
    """Change the params and return them as they were before."""
    seen = {**ctx.params, "list": list(ctx.params["list"])}
    ctx.params["list"].append("mine")
    ctx.params["added"] = True
    return seen


def surroundings() -> dict[str, Any]:
    """Leave files behind; return the directory and environment of the run."""
    Path("note.txt").write_text("left behind", encoding="utf-8")
    Path("empty").mkdir()
    Path("full").mkdir()
    Path("full/note.txt").write_text("left behind", encoding="utf-8")
    Path("link").symlink_to("/")
    with tempfile.NamedTemporaryFile(delete=False) as temporary:
        temporary.write(b"left behind")
    return {
        "cwd": str(Path.cwd()),
        "tmp": tempfile.gettempdir(),
        "temporary": temporary.name,
        "environment": dict(os.environ),  # noqa: TID251 - everything that a flow can read
        "pid": os.getpid(),
    }


def go_away() -> None:
    """Leave and remove the working directory."""
    here = Path.cwd()
    os.chdir("/")
    for path in sorted(here.rglob("*"), reverse=True):
        path.rmdir()
    here.rmdir()


def start_grandchild(ctx: Any) -> int:
    """Start a process that runs longer than the flow."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(ctx.params["grandchild"]).write_text(str(sleeper.pid), encoding="utf-8")
    return sleeper.pid


def write_into_every_pipe() -> None:
    """Write invalid bytes to every open descriptor."""
    for number in range(3, 64):
        try:
            os.write(number, b"this is no frame, is it?")
        except OSError:
            continue


def with_inputs() -> Flow:
    """Return a flow whose task reads an environment variable."""
    flow = Flow(name="env-input")
    flow.add_task(Task(func=lambda x: x, name="peek", inputs={"x": "$env.WORKER_SECRET"}))
    return flow


def many_large() -> Flow:
    """Return a flow of many tasks with large outputs."""
    flow = Flow(name="many-large")
    for number in range(400):
        flow.add_task(Task(func=lambda: "x" * 250_000, name=f"t{number:03}"))
    return flow


CHAINS: dict[str, tuple[Callable[..., object], ...]] = {
    "noop": (noop,),
    "blink": (blink,),
    "note": (note,),
    "greet": (greet, shout),
    "fail": (greet, fail, shout),
    "wait": (wait_for_file,),
    "note-wait": (note, wait_for_file),
    "greet-wait-shout": (greet, wait_for_file, shout),
    "hold": (note, hold_the_interpreter),
    "leave": (greet, leave),
    "crash": (crash,),
    "kill-itself": (kill_itself,),
    "exit": (exit_politely, noop),
    "interrupt": (interrupt, noop),
    "print": (print_much,),
    "large": (note, large),
    "just-large": (large,),
    "hostile": (hostile,),
    "change-params": (change_params,),
    "surroundings": (surroundings,),
    "go-away": (go_away,),
    "grandchild": (start_grandchild, wait_for_file),
    "babble": (write_into_every_pipe,),
}

WHOLE: dict[str, Callable[[], Flow]] = {
    "env-input": with_inputs,
    "many-large": many_large,
    "not-a-flow": lambda: "not a flow",
    "resolver-raises": lambda: "".index("x"),
    "resolver-exits": sys.exit,
}
