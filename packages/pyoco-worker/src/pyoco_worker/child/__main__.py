"""The main program of a child process: executes one run after another for its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyoco_worker.child.callable_policy import CallablePolicy
from pyoco_worker.child.frames import (
    CancelOrder,
    Finished,
    FrameDecoder,
    ParentFrame,
    Progress,
    ProgressOrder,
    Ready,
    RunOrder,
    Setup,
    TaskChanged,
    Unusable,
    parse_from_parent,
)
from pyoco_worker.child.limits import OUT_OF_MEMORY_EXIT, apply_limits, begin_cpu_time
from pyoco_worker.child.stdio_capture import StdioCapture
from pyoco_worker.child.working_directory import WorkingDirectory

if TYPE_CHECKING:
    from pyoco_worker.child.engine import EngineRun
    from pyoco_worker.child.resolver import FlowResolver

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_USER_ARGUMENT: Final = 4
_READ_BYTES: Final = 65536


def main() -> None:
    """Serve the parent on the two sockets given by file descriptor; never returns."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    control = socket.socket(fileno=int(sys.argv[2]))
    if len(sys.argv) > _USER_ARGUMENT:
        become_user(sys.argv[_USER_ARGUMENT])
    die_with_parent(int(sys.argv[3]))
    # The parent handles Ctrl-C and stops its children in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Programs that user code starts must not hold the sockets open.
    orders.set_inheritable(False)
    control.set_inheritable(False)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # a real text stream here
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # a real text stream here
    Child(orders, control).serve()


def become_user(numbers: str) -> None:
    """Give up root for good: become the user `uid,gid,group,…`, before any user code is loaded."""
    uid, gid, *groups = map(int, numbers.split(","))
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)
    if sys.platform == "linux":
        # The kernel hides the files in /proc of a process that has changed its user, even from
        # the process itself.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    for needed in (os.__file__, __file__):
        if not os.access(needed, os.R_OK):
            sys.exit(f"--child-user: the user {uid} cannot read {needed}")


def die_with_parent(parent_pid: int) -> None:
    """Make the kernel kill this process when the parent dies, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the call took effect.
    if os.getppid() != parent_pid:
        os._exit(1)


def frames_of(source: socket.socket) -> Iterator[ParentFrame]:
    """Yield the frames of the parent until it closes its end."""
    decoder = FrameDecoder()
    while True:
        try:
            data = source.recv(_READ_BYTES)
        except OSError:
            return
        if not data:
            return
        for body in decoder.feed(data):
            yield parse_from_parent(body)


class Child:
    """Executes runs in the main thread; a second thread receives cancels and progress requests.

    Each thread reads its own socket. Passing an order from one thread to the other would take
    longer than a short flow.
    """

    def __init__(self, orders: socket.socket, control: socket.socket) -> None:
        self._orders = orders
        self._control = control
        self._sending = threading.Lock()
        self._current_lock = threading.Lock()
        self._current: tuple[str, EngineRun] | None = None
        self._cancelled_early: set[str] = set()

    def serve(self, resolve: FlowResolver | None = None) -> None:
        """Load the resolver, then execute runs until the parent closes the socket.

        A forked child has its resolver already.
        """
        # The parent notices the death of this process when its sockets close. A process that user
        # code forks, such as one of `multiprocessing`, would keep them open.
        os.register_at_fork(after_in_child=self._close)
        threading.Thread(target=self._listen, name="pyoco-control", daemon=True).start()
        frames = frames_of(self._orders)
        setup = next(frames)
        if not isinstance(setup, Setup):
            os._exit(1)
        # These paths are absolute, because each run has its own working directory.
        sys.path[:0] = [path for path in setup.import_paths if path not in sys.path]
        # Before user code is loaded: it may keep a reference to a stream, as handlers of
        # `logging` do.
        stdio = StdioCapture(bytes.fromhex(setup.output_mark), setup.max_output_bytes)
        stdio.begin()
        apply_limits(setup.limits)
        # These imports are slow and load user code. By now the parent can end this process.
        from pyoco_worker.child.engine import EngineRun
        from pyoco_worker.child.resolver import ResolverError, load_resolver

        try:
            resolve = resolve or load_resolver(setup.resolver)
        except ResolverError as error:
            self.send(Unusable(error=str(error)))
            os._exit(1)
        policy = CallablePolicy(setup.callable_allow)
        directory = WorkingDirectory(Path(setup.directory))
        self.send(Ready())
        for order in frames:
            if not isinstance(order, RunOrder):
                os._exit(1)
            directory.enter(order)
            stdio.begin()
            begin_cpu_time(setup.limits)
            run = EngineRun(
                order,
                max_record_bytes=setup.max_record_bytes,
                send=self.send,
                running=stdio.tasks,
                limits=setup.limits,
            )
            self._begin(order.run_id, run)
            try:
                finished = run.execute(resolve, policy)
                self._end()
                stdio.end()
                self.send(finished)
            except MemoryError:
                # The flow's objects fill the memory; `execute` needs some for its report.
                os._exit(OUT_OF_MEMORY_EXIT)
            directory.clean()
        os._exit(0)

    def send(self, frame: Ready | Unusable | Progress | TaskChanged | Finished) -> None:
        """Send a frame to the parent; any thread may call it."""
        data = frame.pack()
        try:
            with self._sending:
                self._orders.sendall(data)
        except OSError:
            os._exit(1)

    def _close(self) -> None:
        self._orders.close()
        self._control.close()

    def _begin(self, run_id: str, run: EngineRun) -> None:
        with self._current_lock:
            self._current = (run_id, run)
            early = run_id in self._cancelled_early
            self._cancelled_early.clear()
        if early:
            run.cancel()

    def _end(self) -> None:
        with self._current_lock:
            self._current = None

    def _listen(self) -> None:
        for frame in frames_of(self._control):
            if isinstance(frame, CancelOrder):
                self._cancel(frame.run_id)
            elif isinstance(frame, ProgressOrder):
                self._report_progress(frame.run_id)
        # The parent has died or closes this child. Threads of user code must not delay the exit.
        os._exit(0)

    def _report_progress(self, run_id: str) -> None:
        with self._current_lock:
            current = self._current
        if current is not None and current[0] == run_id:
            current[1].report_progress()

    def _cancel(self, run_id: str) -> None:
        with self._current_lock:
            current = self._current
            if current is None or current[0] != run_id:
                # The run starts in a moment: its order is being read or is about to arrive.
                self._cancelled_early.add(run_id)
                return
        current[1].cancel()


if __name__ == "__main__":
    main()
