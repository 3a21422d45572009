"""One child process, seen from the worker."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from pyoco_worker.child.frames import (
    CancelOrder,
    ChildFrame,
    Finished,
    FrameCutter,
    FrameError,
    Progress,
    ProgressOrder,
    Ready,
    RunOrder,
    Setup,
    TaskChanged,
    Unusable,
    parse_from_child,
)
from pyoco_worker.child.output_records import MARK_BYTES
from pyoco_worker.children.output_pipe import OutputPipe, TakePrinted

_log = logging.getLogger(__name__)

_LAST_WORDS_CHARS: Final = 8192
_REAP_TIMEOUT_SEC: Final = 5.0

OnProgress = Callable[[Progress | TaskChanged], None]


class ChildDiedError(Exception):
    """The child ended before the run did: killed, crashed, or exited by user code."""

    def __init__(self, how: str, last_output: str) -> None:
        super().__init__(how)
        self.how = how
        self.last_output = last_output


class ChildUnusableError(Exception):
    """The child cannot load the flow resolver; says why."""


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """What every child of a worker is started with."""

    resolver: str | None
    import_paths: tuple[str, ...]
    max_record_bytes: int
    environment: dict[str, str]
    directory: Path
    callable_allow: tuple[str, ...] | None = None
    max_log_bytes: int = 1_048_576


class _Frames(asyncio.Protocol):
    """Cuts what the child sends into frames and hands each one on."""

    def __init__(self, on_frame: Callable[[ChildFrame], None], on_end: Callable[[], None]) -> None:
        self._cutter = FrameCutter()
        self._on_frame = on_frame
        self._on_end = on_end
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._cutter.feed(data):
                self._on_frame(parse_from_child(body))
        except FrameError as error:
            # User code wrote into our pipe: nothing that follows can be trusted.
            _log.error("child sent something that is no frame", extra={"reason": str(error)})
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class ChildProcess:
    """A child that takes one run at a time. Start it with `ChildProcess.start`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        directory: Path,
        outputs: tuple[OutputPipe, ...],
    ) -> None:
        self._process = process
        # All that flows print comes by the first one; the second has what others write to stderr.
        self._outputs = outputs
        self._directory = directory
        # What it is to do; and what interrupts that.
        self._orders: asyncio.WriteTransport | None = None
        self._control: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._finished: asyncio.Future[Finished] | None = None
        self._on_progress: OnProgress | None = None
        self._gone = anyio.Event()
        self.runs_done = 0

    @property
    def pid(self) -> int:
        """Its process id, which is its process group and session too."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can take a run."""
        return not self._gone.is_set()

    @classmethod
    async def start(cls, setup: ChildSetup) -> "ChildProcess":
        """Return a child that has loaded the resolver and waits for a run.

        Raises ChildUnusableError where the resolver cannot be loaded, ChildDiedError where the
        child does not live to say so.
        """
        orders, their_orders = socket.socketpair()
        control, their_control = socket.socketpair()
        mark = secrets.token_bytes(MARK_BYTES)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        directory = setup.directory / uuid.uuid4().hex
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "pyoco_worker.child",
                str(their_orders.fileno()),
                str(their_control.fileno()),
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                pass_fds=(their_orders.fileno(), their_control.fileno()),
                env=setup.environment,
                cwd=setup.directory,
                # Its own group, so that what it starts can be killed with it, and its own
                # session, so that Ctrl-C in the terminal reaches the worker alone.
                start_new_session=True,
            )
        except BaseException:
            orders.close()
            control.close()
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            their_orders.close()
            their_control.close()
            os.close(out_write)
            os.close(err_write)
        outputs = (OutputPipe(out_read, "stdout", mark), OutputPipe(err_read, "stderr", mark))
        child = cls(process, directory, outputs)
        try:
            child._orders = await child._connected(orders)
            child._control = await child._connected(control)
            child._send(
                Setup(
                    resolver=setup.resolver,
                    import_paths=setup.import_paths,
                    max_record_bytes=setup.max_record_bytes,
                    directory=str(directory),
                    callable_allow=setup.callable_allow,
                    output_mark=mark.hex(),
                    max_log_bytes=setup.max_log_bytes,
                )
            )
            await asyncio.shield(child._ready)
        except ChildDiedError:
            raise await child._autopsy() from None
        except BaseException:
            await child.kill()
            raise
        return child

    async def run(
        self, order: RunOrder, on_progress: OnProgress, on_output: TakePrinted | None = None
    ) -> Finished:
        """Return how the run ended; raise ChildDiedError where the child did not survive it.

        All that it printed is with `on_output` by then.
        """
        if self._gone.is_set():
            raise await self._autopsy()
        finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._finished = finished
        self._on_progress = on_progress
        for output in self._outputs:
            output.begin(on_output)
        try:
            self._send(order)
            result = await finished
        except ChildDiedError:
            raise await self._autopsy() from None
        finally:
            self._finished = None
            self._on_progress = None
            for output in self._outputs:
                output.end()
        self.runs_done += 1
        return result

    def ask_to_cancel(self, run_id: str) -> None:
        """Pass a cancel on to the flow; it may take its time, or never listen."""
        if not self._gone.is_set():
            self._send(CancelOrder(run_id=run_id))

    def ask_for_progress(self, run_id: str) -> None:
        """Have the child tell where the tasks of its run stand."""
        if not self._gone.is_set():
            self._send(ProgressOrder(run_id=run_id))

    async def kill(self) -> None:
        """Kill the child and all it has started; return when it is gone. Harmless twice."""
        self.signal_group()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_TIMEOUT_SEC):
            await self._process.wait()
        # What the child started in the same group may outlive its leader by a moment.
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
        except ProcessLookupError:
            return

    async def _connected(self, end: socket.socket) -> asyncio.WriteTransport:
        end.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: _Frames(self._on_frame, self._on_end), sock=end
        )
        self._transports.append(transport)
        return transport

    def _send(self, frame: Setup | RunOrder | CancelOrder | ProgressOrder) -> None:
        is_order = isinstance(frame, Setup | RunOrder)
        transport = self._orders if is_order else self._control
        if transport is not None:
            transport.write(frame.pack())

    def _on_frame(self, frame: ChildFrame) -> None:
        match frame:
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
            case Unusable():
                if not self._ready.done():
                    self._ready.set_exception(ChildUnusableError(frame.error))
            case Progress() | TaskChanged():
                if self._on_progress is not None:
                    self._on_progress(frame)
            case Finished():
                if self._finished is not None and not self._finished.done():
                    self._finished.set_result(frame)

    def _on_end(self) -> None:
        if self._gone.is_set():
            return
        self._gone.set()
        for future in (self._ready, self._finished):
            if future is not None and not future.done():
                future.set_exception(ChildDiedError("its pipe was closed", self._last_words()))
                # Nobody may be waiting for it any more, and that is no fault.
                future.exception()

    async def _autopsy(self) -> ChildDiedError:
        """Return how the child ended; what is left of it is cleared away."""
        await self.kill()
        return ChildDiedError(_how_it_ended(self._process.returncode), self._last_words())

    def _last_words(self) -> str:
        said = "\n".join(filter(None, (output.last_words() for output in self._outputs)))
        return said[-_LAST_WORDS_CHARS:]


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
