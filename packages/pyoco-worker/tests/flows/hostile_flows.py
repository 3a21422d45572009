"""Flows that attack the worker, other runs, or the machine they run on."""

import builtins
import json
import os
import signal
import socket
import stat
import struct
import subprocess
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


def take_memory_at_once() -> int:
    """Allocate a gigabyte."""
    return len(bytearray(2**30))


def take_memory_slowly() -> None:
    """Allocate small objects until no memory is left."""
    kept: list[object] = []
    while True:
        kept.append([kept])


def take_memory_in_a_program() -> None:
    """Start a program that allocates a gigabyte."""
    program = [sys.executable, "-c", "bytearray(2**30)"]
    done = subprocess.run(program, check=False, capture_output=True)
    raise RuntimeError(done.stderr.decode().strip().splitlines()[-1])


def use_cpu(ctx: Any) -> None:
    """Compute for `seconds` of CPU time."""
    until = time.process_time() + float(ctx.params["seconds"])
    while time.process_time() < until:
        pass


def use_cpu_in_a_program() -> None:
    """Start a program that computes without end."""
    subprocess.run([sys.executable, "-c", "while True: pass"], check=True)


def write_a_file() -> None:
    """Write ten megabytes into one file."""
    Path("large").write_bytes(bytes(10_000_000))


def write_a_file_in_a_program() -> None:
    """Let a program write ten megabytes into one file."""
    subprocess.run(["/bin/dd", "if=/dev/zero", "of=large", "bs=1000000", "count=10"], check=True)


def write_and_die() -> None:
    """Write ten megabytes, and be ended by the signal, as programs are."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    write_a_file()


def start_processes() -> None:
    """Start programs until the kernel refuses."""
    for _ in range(400):
        subprocess.Popen(["/bin/sleep", "600"])


def start_threads() -> None:
    """Start threads until the kernel refuses."""
    forever = threading.Event()
    for _ in range(4000):
        threading.Thread(target=forever.wait, daemon=True).start()


def read_the_worker() -> dict[str, str]:
    """Return the environments and command lines of the worker and of its other processes."""
    worker, found = os.getppid(), {}
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            parent = int(status.partition("PPid:")[2].split()[0])
            if pid == worker or (parent == worker and pid != os.getpid()):
                for name in ("environ", "cmdline"):
                    text = Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ")
                    found[f"{pid}/{name}"] = text.decode(errors="replace")
        except OSError:
            continue
    return found


def who_am_i(ctx: Any) -> dict[str, Any]:
    """Return the user of this process, and what it can do to the worker."""
    unreadable = []
    for name in ("environ", "mem"):
        try:
            Path(f"/proc/{ctx.params['worker_pid']}/{name}").open("rb").close()
        except OSError:
            unreadable.append(name)
    try:
        os.setuid(0)
        can_become_root = True
    except OSError:
        can_become_root = False
    subprocess.run(["/bin/sh", "-c", "echo through > /dev/stdout"], check=True)
    variables = os.environ  # noqa: TID251 - flows read their environment
    return {
        "uid": os.getuid(),
        "euid": os.geteuid(),
        "groups": os.getgroups(),
        "user": variables["USER"],
        "home": variables["HOME"],
        "directory_uid": Path.cwd().stat().st_uid,
        "can_become_root": can_become_root,
        "unreadable": unreadable,
    }


def start_a_program() -> int:
    """Leave a program behind."""
    return subprocess.Popen(["/bin/sleep", "600"]).pid


def fork(ctx: Any) -> None:
    """Leave a forked process behind, then do what `then` says: die, use CPU time, or return."""
    pid = os.fork()
    if not pid and ctx.params["then"] == "return twice":
        return
    if not pid:
        os.setsid()
        time.sleep(600)
    Path(ctx.params["pid"]).write_text(str(pid), encoding="utf-8")
    if ctx.params["then"] == "die":
        os._exit(3)
    if ctx.params["then"] == "use cpu":
        use_cpu(ctx)


CHAINS: dict[str, tuple[Callable[..., object], ...]] = {
    "noop": (noop,),
    "wait": (wait_for_file,),
    "forge-next": (forge_the_next_run,),
    "send-between-runs": (send_between_runs,),
    "send-at-once": (send_at_once,),
    "leave-a-mark": (leave_a_mark,),
    "blocked-by-mark": (noop,),
    "memory": (take_memory_at_once,),
    "memory-slowly": (take_memory_slowly,),
    "memory-in-a-program": (take_memory_in_a_program,),
    "cpu": (use_cpu,),
    "cpu-in-a-program": (use_cpu_in_a_program,),
    "file": (write_a_file,),
    "file-in-a-program": (write_a_file_in_a_program,),
    "file-and-die": (write_and_die,),
    "processes": (start_processes,),
    "threads": (start_threads,),
    "read-the-worker": (read_the_worker,),
    "who-am-i": (who_am_i,),
    "start-a-program": (start_a_program,),
    "fork": (fork,),
}
