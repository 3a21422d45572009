"""Flows that print, in every way there is."""
# ruff: noqa: T201 - printing is what these flows are for

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

# Bound when the module is loaded, long before any run.
logger = logging.getLogger("talking")
logger.addHandler(logging.StreamHandler())


def resolve(flow_name: str) -> Flow:
    """Return a new flow of this name; KeyError for one that is not here."""
    if flow_name in WHOLE:
        return WHOLE[flow_name]()
    flow = Flow(name=flow_name)
    for step in CHAINS[flow_name]:
        flow >> task(step)
    return flow


def silent() -> None:
    """Print nothing."""


def talk() -> str:
    """Print in both ways, and in between."""
    print("one")
    print("two", file=sys.stderr)
    print("three", "and", "four")
    print()
    print("五")
    return "said"


def listen() -> str:
    """Print from another task."""
    print("heard")
    return "done"


def log_it() -> None:
    """Say it by way of `logging`."""
    logger.warning("careful now")


def write_bytes() -> None:
    """Write below the text: to the buffer, and to the descriptors."""
    sys.stdout.buffer.write(b"from the buffer\n")
    sys.stdout.writelines(["from ", "lines\n"])
    os.write(1, b"from fd 1\n")
    print("between")
    os.write(2, b"from fd 2\n")
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)


def call_programs() -> None:
    """Let other programs print."""
    print("before")
    subprocess.run(["/bin/sh", "-c", "echo out; echo err >&2"], check=True)
    print("after")
    subprocess.run(["/bin/echo", "handed on"], check=True, stdout=sys.stdout)


def fork() -> None:
    """Print from a copy of this process."""
    process = multiprocessing.get_context("fork").Process(target=print, args=("from a fork",))
    process.start()
    process.join()


def ends_without_newline() -> None:
    """Leave a line open."""
    print("first")
    print("no end", end="")


def odd_bytes() -> None:
    """Print what is no text."""
    sys.stdout.buffer.write(b"a\xff\xfeb\n")
    print("half \ud800 a pair")
    os.write(1, "カ".encode()[:2])
    time.sleep(0.05)
    os.write(1, "カ".encode()[2:] + b"\n")
    print("nul \0, return\r")
    print("é" * 5000)


def threads() -> None:
    """Print from threads of our own."""
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()


def rude() -> None:
    """Close and replace what we print to."""
    print("polite")
    sys.stderr.close()
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - left open on purpose
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print("to nobody")


def flood(ctx: Any) -> str:
    """Print as fast as can be."""
    line = "x" * 999
    for _ in range(int(ctx.params["megabytes"]) * 1000):
        print(line)
    os.write(1, b"still here\n")
    return "printed"


def die_talking(ctx: Any) -> None:
    """Say something, and be gone at once."""
    for number in range(int(ctx.params.get("lines", 1))):
        print(f"line {number}")
    os.write(2, b"famous last words\n")
    os._exit(3)


def say_and_wait(ctx: Any) -> None:
    """Print a line, and go on when told to."""
    print("waiting for you")
    print("unfinished", end="")
    Path(ctx.params["began"]).touch()
    while not Path(ctx.params["until"]).exists() and not ctx.is_cancelled:
        time.sleep(0.005)
    print(" business")


def two_at_once() -> Flow:
    """Return a flow whose tasks run side by side and print in turn."""
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


def resolver_talks() -> Flow:
    """Return a flow, having said so."""
    print("looking it up")
    flow = Flow(name="resolver-talks")
    flow >> task(listen)
    return flow


CHAINS: dict[str, tuple[Callable[..., object], ...]] = {
    "silent": (silent,),
    "talk": (talk, listen),
    "logging": (log_it,),
    "bytes": (write_bytes,),
    "programs": (call_programs,),
    "fork": (fork,),
    "no-newline": (ends_without_newline, listen),
    "odd": (odd_bytes,),
    "threads": (threads,),
    "rude": (rude,),
    "flood": (flood, listen),
    "die-talking": (die_talking,),
    "wait": (say_and_wait,),
}
WHOLE: dict[str, Callable[[], Flow]] = {
    "two-at-once": two_at_once,
    "resolver-talks": resolver_talks,
}
