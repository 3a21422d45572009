"""Starts a child by `fork`, for a resolver that a new process could not import.

A forked child shares the memory of the worker at the time of the fork, so the resolver can be any
callable. It closes all descriptors of the worker and keeps none of its environment, signal
handlers and log handlers. The fork happens in a thread: the event loop runs in another one, so
the child has no running loop.
"""

import contextlib
import contextvars
import gc
import logging
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TextIO

import anyio

from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.child_user import ChildUser

_REAP_STEP_SEC: Final = 0.01
_STDIN, _STDOUT, _STDERR = 0, 1, 2

# Keeps the worker's streams alive in the child: they would write their buffers when freed.
_STREAMS_OF_WORKER: Final[list[TextIO | None]] = []


@dataclass(frozen=True, slots=True)
class ChildEnds:
    """The descriptors of a child: its two sockets and its output pipes."""

    orders: int
    control: int
    stdout: int
    stderr: int


class ForkedProcess:
    """A forked child, with the attributes of `asyncio.subprocess.Process` that the worker uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    async def wait(self) -> int:
        """Return its exit code when it has ended."""
        while self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - does not wait
            except ChildProcessError:
                # Another part of the program has waited for it.
                self.returncode = 0
                break
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
                break
            await anyio.sleep(_REAP_STEP_SEC)
        return self.returncode


async def start_forked(
    resolve: FlowResolver,
    ends: ChildEnds,
    environment: Mapping[str, str],
    directory: Path,
    user: ChildUser | None,
) -> ForkedProcess:
    """Return a child that has separated itself from the worker, and runs as `user` if given.

    Must not be cancelled: a child without a known id cannot be ended.
    """

    def serve() -> NoReturn:
        _serve(resolve, ends, environment, directory, user)

    return ForkedProcess(await anyio.to_thread.run_sync(_fork, serve))


def _fork(serve: Callable[[], NoReturn]) -> int:
    """Return the id of a child that runs `serve`, after the child has closed our descriptors."""
    separated, in_child = os.pipe()
    try:
        with warnings.catch_warnings():
            # Python warns of threads that hold locks. The child uses no lock of another thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            # No context variables of the worker, such as those of its async libraries.
            contextvars.Context().run(serve)
        os.close(in_child)
        in_child = -1
        # The child has its own process group by then, so it can be killed.
        os.read(separated, 1)
        return pid
    finally:
        os.close(separated)
        if in_child >= 0:
            os.close(in_child)


def _serve(
    resolve: FlowResolver,
    ends: ChildEnds,
    environment: Mapping[str, str],
    directory: Path,
    user: ChildUser | None,
) -> NoReturn:
    try:
        os.setsid()
        _reset_signals()
        # Objects of the worker must not be finalised here: they would close descriptors that the
        # child uses for something else.
        gc.freeze()
        _replace_descriptors(ends)
        _replace_streams()
        os.chdir(directory)
        os.environ.clear()  # noqa: TID251 - the environment of user code, not read
        os.environ.update(environment)  # noqa: TID251 - the environment of user code, not read
        from pyoco_worker.child.__main__ import Child, become_user

        if user is not None:
            become_user(user.as_argument())
        orders, control = (socket.socket(fileno=end) for end in (ends.orders, ends.control))
        Child(orders, control).serve(resolve)
    except BaseException:  # noqa: BLE001 - top of a process; its end fails the run
        traceback.print_exc()
    finally:
        os._exit(1)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # The worker handles Ctrl-C and stops its children in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _replace_descriptors(ends: ChildEnds) -> None:
    """Connect the standard descriptors, and close all others but the sockets."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, _STDIN), (ends.stdout, _STDOUT), (ends.stderr, _STDERR)):
        os.dup2(source, target)
    for found in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if found > _STDERR and found not in (ends.orders, ends.control):
            # The descriptor of the listing itself is closed by now.
            with contextlib.suppress(OSError):
                os.close(found)


def _replace_streams() -> None:
    _STREAMS_OF_WORKER.extend((sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
    sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115 - never closed
    sys.stdout = _stream_to(_STDOUT)
    sys.stderr = _stream_to(_STDERR)
    logging.root.handlers.clear()


def _stream_to(descriptor: int) -> TextIO:
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
