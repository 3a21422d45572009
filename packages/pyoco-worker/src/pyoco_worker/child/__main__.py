"""A child process: takes one run after another from its parent, until the pipe ends."""

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
    FrameCutter,
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
from pyoco_worker.child.printing import Printing
from pyoco_worker.child.working_directory import WorkingDirectory

if TYPE_CHECKING:
    from pyoco_worker.child.engine import EngineRun

_PR_SET_PDEATHSIG: Final = 1
_READ_BYTES: Final = 65536


def main() -> None:
    """Serve the parent on the two sockets whose numbers are given; never returns."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    control = socket.socket(fileno=int(sys.argv[2]))
    die_with_parent(int(sys.argv[3]))
    # Ctrl-C in a terminal is the parent's to handle; it stops us in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other programs that user code starts must not hold our pipes open.
    orders.set_inheritable(False)
    control.set_inheritable(False)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # a real text stream here
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # a real text stream here
    Child(orders, control).serve()


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill us when the parent is gone, even one that was killed itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the call took effect.
    if os.getppid() != parent_pid:
        os._exit(1)


def frames_of(source: socket.socket) -> Iterator[ParentFrame]:
    """Yield what the parent sends, until it closes its end."""
    cutter = FrameCutter()
    while True:
        try:
            data = source.recv(_READ_BYTES)
        except OSError:
            return
        if not data:
            return
        for body in cutter.feed(data):
            yield parse_from_parent(body)


class Child:
    """Takes orders and runs flows in the main thread, while another one hears what interrupts.

    Two sockets, so that an order goes straight to the thread that carries it out: handing it
    over from the other one would cost a short run more than its flow does.
    """

    def __init__(self, orders: socket.socket, control: socket.socket) -> None:
        self._orders = orders
        self._control = control
        self._sending = threading.Lock()
        self._current_lock = threading.Lock()
        self._current: tuple[str, EngineRun] | None = None
        self._cancelled_early: set[str] = set()

    def serve(self) -> None:
        """Load the resolver, then execute orders for ever."""
        threading.Thread(target=self._listen, name="pyoco-control", daemon=True).start()
        frames = frames_of(self._orders)
        setup = next(frames)
        if not isinstance(setup, Setup):
            os._exit(1)
        # Absolute, because each run works in a directory of its own.
        sys.path[:0] = [path for path in setup.import_paths if path not in sys.path]
        # Before user code: it may keep a stream for later, as handlers of `logging` do.
        printing = Printing(bytes.fromhex(setup.output_mark), setup.max_log_bytes)
        printing.begin()
        # Heavy, and user code: both come after we can be told to die.
        from pyoco_worker.child.engine import EngineRun
        from pyoco_worker.child.resolver import ResolverError, load_resolver

        try:
            resolve = load_resolver(setup.resolver)
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
            printing.begin()
            run = EngineRun(
                order,
                max_record_bytes=setup.max_record_bytes,
                send=self.send,
                running=printing.tasks,
            )
            self._begin(order.run_id, run)
            finished = run.execute(resolve, policy)
            with self._current_lock:
                self._current = None
            printing.end()
            self.send(finished)
            directory.clean()
        os._exit(0)

    def send(self, frame: Ready | Unusable | Progress | TaskChanged | Finished) -> None:
        """Pass a frame to the parent; may be called from any thread."""
        data = frame.pack()
        try:
            with self._sending:
                self._orders.sendall(data)
        except OSError:
            os._exit(1)

    def _begin(self, run_id: str, run: EngineRun) -> None:
        with self._current_lock:
            self._current = (run_id, run)
            early = run_id in self._cancelled_early
            self._cancelled_early.clear()
        if early:
            run.cancel()

    def _listen(self) -> None:
        for frame in frames_of(self._control):
            if isinstance(frame, CancelOrder):
                self._cancel(frame.run_id)
            elif isinstance(frame, ProgressOrder):
                self._tell_progress(frame.run_id)
        # The parent is gone or wants us gone. Threads of user code must not hold us up.
        os._exit(0)

    def _tell_progress(self, run_id: str) -> None:
        with self._current_lock:
            current = self._current
        if current is not None and current[0] == run_id:
            current[1].tell_progress()

    def _cancel(self, run_id: str) -> None:
        with self._current_lock:
            current = self._current
            if current is None or current[0] != run_id:
                # The order to run it is read already, or comes right behind.
                self._cancelled_early.add(run_id)
                return
        current[1].cancel()


if __name__ == "__main__":
    main()
