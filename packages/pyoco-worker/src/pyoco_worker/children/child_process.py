"""One child process, as the worker sees it."""

import asyncio
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

import anyio

from pyoco_protocol.logging.setup import error_fields
from pyoco_worker.child import frames
from pyoco_worker.child.frames import ChildFrame, Finished, Progress, RunOrder, TaskChanged
from pyoco_worker.child.limits import ChildLimits
from pyoco_worker.child.output_records import MARK_BYTES
from pyoco_worker.child.resolver import FlowResolver
from pyoco_worker.child_user import ChildUser
from pyoco_worker.children.forked_child import ChildEnds, ForkedProcess, start_forked
from pyoco_worker.children.frame_stream import FrameStream
from pyoco_worker.children.output_reader import OutputReader, TakeOutput

_log = logging.getLogger(__name__)

_LAST_OUTPUT_CHARS: Final = 8192
_REAP_TIMEOUT_SEC: Final = 5.0
_SECRET_BYTES: Final = 16
_FORGED: Final = "the child process sent a frame that does not belong to its run, and was killed"

OnProgress = Callable[[Progress | TaskChanged], None]


class Unused(Enum):
    """The tenant of a child that has not executed a run."""

    UNUSED = auto()


UNUSED: Final = Unused.UNUSED


class ChildExitedError(Exception):
    """The child ended before its run did: killed, crashed, or exited by user code."""

    def __init__(self, how: str, last_output: str, *, is_over_limit: bool = False) -> None:
        super().__init__(f"{how}\n{last_output}".strip())
        self.how = how
        self.last_output = last_output
        self.is_over_limit = is_over_limit


class ChildUnusableError(Exception):
    """The child cannot load the flow resolver; the message says why."""


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """The settings that all children of a worker are started with."""

    resolver: str | None
    import_paths: tuple[str, ...]
    max_record_bytes: int
    environment: dict[str, str]
    directory: Path
    callable_allow: tuple[str, ...] | None = None
    max_output_bytes: int = 1_048_576
    # The resolver itself, if a new process could not import it; the children are forked then.
    resolve: FlowResolver | None = None
    limits: ChildLimits = field(default_factory=ChildLimits)
    # The user that the child becomes; None for the user of the worker.
    user: ChildUser | None = None


class ChildProcess:
    """A child that executes one run at a time. Start it with `ChildProcess.start`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process | ForkedProcess,
        setup: ChildSetup,
        directory: Path,
        outputs: tuple[OutputReader, ...],
    ) -> None:
        self._process = process
        self._limits = setup.limits
        # `_outputs[0]` reads stdout, which also carries the captured stderr of flows. `_outputs[1]`
        # reads stderr, with the output that is written to the descriptor directly.
        self._outputs = outputs
        self._directory = directory
        # `_orders` carries setup and runs, `_control` carries frames that interrupt a run.
        self._orders: asyncio.WriteTransport | None = None
        self._control: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._finished: asyncio.Future[Finished] | None = None
        # The id and the secret of the current run, which its frames must carry.
        self._run: tuple[str, str] | None = None
        self._was_distrusted = False
        self._is_being_killed = False
        self._on_progress: OnProgress | None = None
        self._gone = anyio.Event()
        self.runs_done = 0
        # The tenant of its runs; UNUSED until it gets the first one.
        self.tenant: str | Unused | None = UNUSED

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group and session."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can execute a run."""
        return not self._gone.is_set()

    @classmethod
    async def start(cls, setup: ChildSetup) -> "ChildProcess":
        """Return a child that has loaded the resolver and waits for a run.

        Raises ChildUnusableError if the resolver cannot be loaded, and ChildExitedError if the
        child ends before it reports.
        """
        directory = setup.directory / uuid.uuid4().hex
        if setup.user is not None:
            directory.mkdir(mode=0o700)
            os.chown(directory, setup.user.uid, setup.user.gid)
        orders, child_orders = socket.socketpair()
        control, child_control = socket.socketpair()
        mark = secrets.token_bytes(MARK_BYTES)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        ends = ChildEnds(child_orders.fileno(), child_control.fileno(), out_write, err_write)
        try:
            if setup.user is not None:
                for pipe in (out_write, err_write):
                    # Without this, `/dev/stdout` and `/dev/stderr` cannot be opened.
                    os.fchown(pipe, setup.user.uid, setup.user.gid)
            # A cancelled start would leave a process that nothing ends.
            with anyio.CancelScope(shield=True):
                process = await _started(setup, ends)
        except BaseException:
            orders.close()
            control.close()
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            child_orders.close()
            child_control.close()
            os.close(out_write)
            os.close(err_write)
        outputs = (OutputReader(out_read, "stdout", mark), OutputReader(err_read, "stderr", mark))
        child = cls(process, setup, directory, outputs)
        try:
            child._orders = await child._connected(orders)
            child._control = await child._connected(control)
            child._send(
                frames.Setup(
                    resolver=setup.resolver,
                    import_paths=setup.import_paths,
                    max_record_bytes=setup.max_record_bytes,
                    directory=str(directory),
                    callable_allow=setup.callable_allow,
                    output_mark=mark.hex(),
                    max_output_bytes=setup.max_output_bytes,
                    limits=setup.limits,
                )
            )
            await asyncio.shield(child._ready)
        except ChildExitedError:
            raise await child._exit_error() from None
        except BaseException:
            await child.kill()
            # A start that is cancelled may leave one without a transport.
            orders.close()
            control.close()
            raise
        return child

    async def run(
        self, order: RunOrder, on_progress: OnProgress, on_output: TakeOutput | None = None
    ) -> Finished:
        """Return how the run ended; raise ChildExitedError if the child died during it.

        `on_output` has received all output of the run by then.
        """
        if self._gone.is_set():
            raise await self._exit_error()
        finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        order = order.model_copy(update={"secret": secrets.token_hex(_SECRET_BYTES)})
        self._finished = finished
        self._run = (order.run_id, order.secret)
        self._on_progress = on_progress
        for output in self._outputs:
            output.begin(on_output)
        try:
            self._send(order)
            result = await finished
        except ChildExitedError:
            raise await self._exit_error() from None
        finally:
            self._finished = None
            self._run = None
            self._on_progress = None
            for output in self._outputs:
                output.end()
        self.runs_done += 1
        if result.how == "limit_exceeded":
            # The process may have no memory, files or processes left for another run.
            await self.kill()
        return result

    def ask_to_cancel(self, run_id: str) -> None:
        """Pass a cancel to the flow, which may react late or never."""
        if not self._gone.is_set():
            self._send(frames.CancelOrder(run_id=run_id))

    def ask_for_progress(self, run_id: str) -> None:
        """Make the child report the states of its tasks."""
        if not self._gone.is_set():
            self._send(frames.ProgressOrder(run_id=run_id))

    async def kill(self) -> None:
        """Kill the child and its process group; return when it has ended. Can be repeated."""
        self._is_being_killed = True
        self.signal_group()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_TIMEOUT_SEC):
            await self._process.wait()
        # Other members of the group can outlive the child for a moment.
        self.signal_group()
        self._on_end()
        for transport in self._transports:
            transport.close()
        for output in self._outputs:
            output.close()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_remove, self._directory)

    def signal_group(self) -> None:
        """Send SIGKILL to the child's process group."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # The group has ended, or is a program of another user that a flow has started. macOS
            # reports EPERM if only zombies are left.
            return

    async def _connected(self, end: socket.socket) -> asyncio.WriteTransport:
        end.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: FrameStream(self._on_frame, self._on_end), sock=end
        )
        self._transports.append(transport)
        return transport

    def _send(
        self, frame: frames.Setup | RunOrder | frames.CancelOrder | frames.ProgressOrder
    ) -> None:
        is_order = isinstance(frame, frames.Setup | RunOrder)
        transport = self._orders if is_order else self._control
        if transport is not None:
            transport.write(frame.pack())

    def _on_frame(self, frame: ChildFrame) -> None:
        if self._gone.is_set():
            return
        match frame:
            case frames.Ready() if not self._ready.done():
                self._ready.set_result(None)
            case frames.Unusable() if not self._ready.done():
                self._ready.set_exception(ChildUnusableError(frame.error))
            case Progress() | TaskChanged() if self._is_of_current_run(frame):
                if self._on_progress is not None:
                    self._on_progress(frame)
            case Finished() if self._is_of_current_run(frame):
                if self._finished is not None and not self._finished.done():
                    self._finished.set_result(frame)
                # A run has one end: any frame after it is forged.
                self._run = None
            case _ if not self._is_being_killed:
                self._distrust(frame)

    def _is_of_current_run(self, frame: frames.RunFrame) -> bool:
        return self._run == (frame.run_id, frame.secret)

    def _distrust(self, frame: ChildFrame) -> None:
        """Kill the child, because user code has written a frame to its socket."""
        forged = ChildExitedError(_FORGED, "")
        _log.error(
            "child sent a forged frame",
            extra={**error_fields(forged), "child_pid": self.pid, "kind": frame.kind},
        )
        self._was_distrusted = True
        self.signal_group()
        self._on_end()

    def _on_end(self) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        for future in (self._ready, self._finished):
            if future is not None and not future.done():
                future.set_exception(ChildExitedError("its pipe was closed", self._last_output()))
                # Marks the exception as retrieved, so that asyncio does not warn if the future
                # has no waiter.
                future.exception()

    async def _exit_error(self) -> ChildExitedError:
        """Kill the remaining processes of the child's group, and return how the child ended."""
        await self.kill()
        limit = self._limits.behind_exit(self._process.returncode)
        if self._was_distrusted:
            how = _FORGED
        elif limit is not None:
            how = self._limits.sentence(limit)
        else:
            how = _how_it_ended(self._process.returncode)
        return ChildExitedError(how, self._last_output(), is_over_limit=limit is not None)

    def _last_output(self) -> str:
        texts = "\n".join(filter(None, (output.last_output() for output in self._outputs)))
        return texts[-_LAST_OUTPUT_CHARS:]


async def _started(
    setup: ChildSetup, ends: ChildEnds
) -> asyncio.subprocess.Process | ForkedProcess:
    if setup.resolve is not None:
        return await start_forked(
            setup.resolve, ends, setup.environment, setup.directory, setup.user
        )
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pyoco_worker.child",
        str(ends.orders),
        str(ends.control),
        str(os.getpid()),
        *([] if setup.user is None else [setup.user.as_argument()]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=ends.stdout,
        stderr=ends.stderr,
        pass_fds=(ends.orders, ends.control),
        env=setup.environment,
        cwd=setup.directory,
        # Its own process group, so that the programs it starts can be killed with it. Its own
        # session, so that Ctrl-C in a terminal reaches the worker only.
        start_new_session=True,
    )


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "the child process cannot be killed"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the child process was ended by {name}"
    return f"the child process exited with code {code} in the middle of its work"
