"""Flows that attack the worker, other runs, or the machine they run on."""

import builtins
import json
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoco import task
from pyoco.core.models import Flow


def resolve(flow_name: str) -> Flow:
    """Return a new flow by name; block in a process that `leave_a_mark` has run in."""
    if flow_name == "blocked-by-mark":
        while hasattr(builtins, "pyoco_mark"):
            time.sleep(0.005)
    flow = Flow(name=flow_name)
    for step in CHAINS[flow_name]:
        flow >> task(step)
    return flow


def noop() -> None:
    """Do nothing."""


def wait_for_file(ctx: Any) -> str:
    """Wait until the file `until` exists."""
    Path(ctx.params["began"]).touch()
    while not Path(ctx.params["until"]).exists():
        time.sleep(0.005)
    return "went on"


def send_to_worker(frame: dict[str, Any]) -> None:
    """Send a frame on every socket of the process."""
    body = json.dumps(frame).encode()
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as pipe:
                    pipe.sendall(struct.pack("!I", len(body)) + body)
        except OSError:
            continue


def finished(run_id: str) -> dict[str, Any]:
    """Return a frame that ends a run with a result of our own."""
    return {"kind": "finished", "run_id": run_id, "how": "succeeded", "result": {"forged": True}}


def current_run() -> str:
    """Return the id of the run that this process executes."""
    return os.environ["PYOCO_RUN_ID"]  # noqa: TID251 - flows read their run id here


def in_background(action: Callable[[], None]) -> None:
    """Leave a thread behind that outlives the run."""
    threading.Thread(target=action, daemon=True).start()


def forge_the_next_run(ctx: Any) -> None:
    """Leave a thread that ends the next run of this process, once `forge` exists if it is given."""
    mine, when = current_run(), ctx.params.get("forge")
    builtins.pyoco_mark = True  # type: ignore[attr-defined] # state that outlives the run

    def forge() -> None:
        while current_run() == mine or (when and not Path(when).exists()):
            time.sleep(0.001)
        send_to_worker(finished(current_run()))

    in_background(forge)


def send_between_runs(ctx: Any) -> None:
    """Leave a thread that sends the frame `frame` once the file `forge` exists."""
    frame, when = ctx.params["frame"], Path(ctx.params["forge"])

    def send() -> None:
        while not when.exists():
            time.sleep(0.001)
        send_to_worker(frame)

    in_background(send)


def send_at_once(ctx: Any) -> None:
    """Send the frame `frame` and wait for the reaction."""
    send_to_worker({"run_id": current_run(), **ctx.params["frame"]})
    time.sleep(5)


def leave_a_mark() -> bool:
    """Leave state in `builtins` and in a module; return whether an earlier run has done so."""
    found = hasattr(builtins, "pyoco_mark") or hasattr(sys.modules["json"], "pyoco_mark")
    builtins.pyoco_mark = json.pyoco_mark = True  # type: ignore[attr-defined] # the attack
    return found


CHAINS: dict[str, tuple[Callable[..., object], ...]] = {
    "noop": (noop,),
    "wait": (wait_for_file,),
    "forge-next": (forge_the_next_run,),
    "send-between-runs": (send_between_runs,),
    "send-at-once": (send_at_once,),
    "leave-a-mark": (leave_a_mark,),
    "blocked-by-mark": (noop,),
}
