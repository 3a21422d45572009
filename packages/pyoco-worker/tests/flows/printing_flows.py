"""Flows that print in many ways. CHAINS names the functions of each flow."""
# ruff: noqa: T201 - these flows are for printing

import ctypes
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import task
from pyoco.core.models import Flow, Task

# The handler keeps the stream that exists at import, before any run.
logger = logging.getLogger("printing")
logger.addHandler(logging.StreamHandler())


def resolve(flow_name: str) -> Flow:
    """Return a new flow by name; raise KeyError for an unknown name."""
    if flow_name in WHOLE:
        return WHOLE[flow_name]()
    flow = Flow(name=flow_name)
    for step in CHAINS[flow_name]:
        flow >> task(step)
    return flow


def silent() -> None:
    """Print nothing."""


def print_lines() -> str:
    """Print to stdout and stderr."""
    print("one")
    print("two", file=sys.stderr)
    print("three", "and", "four")
    print()
    print("五")
    return "printed"


def print_more() -> str:
    """Print from another task."""
    print("more")
    return "done"


def log_it() -> None:
    """Write through `logging`."""
    logger.warning("careful now")


def write_bytes() -> None:
    """Write to the buffer and to the descriptors."""
    sys.stdout.buffer.write(b"from the buffer\n")
    sys.stdout.writelines(["from ", "lines\n"])
    os.write(1, b"from fd 1\n")
    print("between")
    os.write(2, b"from fd 2\n")
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)


def call_programs() -> None:
    """Start programs that print."""
    print("before")
    subprocess.run(["/bin/sh", "-c", "echo out; echo err >&2"], check=True)
    print("after")
    subprocess.run(["/bin/echo", "handed on"], check=True, stdout=sys.stdout)


def fork() -> None:
    """Print from a forked process."""
    process = multiprocessing.get_context("fork").Process(target=print, args=("from a fork",))
    process.start()
    process.join()


def ends_without_newline() -> None:
    """Print a last line without newline."""
    print("first")
    print("no end", end="")


def odd_bytes() -> None:
    """Print bytes that are not valid text."""
    sys.stdout.buffer.write(b"a\xff\xfeb\n")
    print("half \ud800 a pair")
    os.write(1, "カ".encode()[:2])
    time.sleep(0.05)
    os.write(1, "カ".encode()[2:] + b"\n")
    print("nul \0, return\r")
    print("é" * 5000)


def threads() -> None:
    """Print from a new thread."""
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()


def close_streams() -> None:
    """Close and replace the output streams."""
    print("before closing")
    sys.stderr.close()
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - left open on purpose
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print("to /dev/null")


def flood(ctx: Any) -> str:
    """Print as fast as possible."""
    line = "x" * 999
    for _ in range(int(ctx.params["megabytes"]) * 1000):
        print(line)
    os.write(1, b"still here\n")
    return "printed"


def print_and_exit(ctx: Any) -> None:
    """Print, then end the process at once."""
    for number in range(int(ctx.params.get("lines", 1))):
        print(f"line {number}")
    os.write(2, b"last line on stderr\n")
    os._exit(3)


def say_and_wait(ctx: Any) -> None:
    """Print a line, and continue when the file `until` exists."""
    print("waiting for you")
    print("unfinished", end="")
    Path(ctx.params["began"]).touch()
    while not Path(ctx.params["until"]).exists() and not ctx.is_cancelled:
        time.sleep(0.005)
    print(" business")


def two_at_once() -> Flow:
    """Return a flow whose tasks run concurrently and print in turn."""
    turn = threading.Barrier(2, timeout=20)

    def left() -> str:
        for number in range(20):
            turn.wait()
            print(f"left {number}")
        return "L"

    def right() -> str:
        for number in range(20):
            turn.wait()
            print("right", number)
        return "R"

    flow = Flow(name="two-at-once")
    flow.add_task(Task(func=left, name="left"))
    flow.add_task(Task(func=right, name="right"))
    return flow


def resolver_prints() -> Flow:
    """Print, then return a flow."""
    print("looking it up")
    flow = Flow(name="resolver-prints")
    flow >> task(print_more)
    return flow


CHAINS: dict[str, tuple[Callable[..., object], ...]] = {
    "silent": (silent,),
    "print-lines": (print_lines, print_more),
    "logging": (log_it,),
    "bytes": (write_bytes,),
    "programs": (call_programs,),
    "fork": (fork,),
    "no-newline": (ends_without_newline, print_more),
    "odd": (odd_bytes,),
    "threads": (threads,),
    "close-streams": (close_streams,),
    "flood": (flood, print_more),
    "print-and-exit": (print_and_exit,),
    "wait": (say_and_wait,),
}
WHOLE: dict[str, Callable[[], Flow]] = {
    "two-at-once": two_at_once,
    "resolver-prints": resolver_prints,
}
