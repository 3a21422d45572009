"""Starts, stops, kills and freezes the processes of a test, and reads their logs."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import psutil

from pyoco_testkit.environment import clean_environment

TAIL_BYTES: Final = 16_384
_POLL: Final = 0.005

# Sets PR_SET_PDEATHSIG and then executes the command in the same process. `preexec_fn` is no
# alternative: it runs Python between fork and exec, which is unsafe in a process with threads.
_DIE_WITH_PARENT: Final = """
import ctypes, os, signal, sys
if ctypes.CDLL(None).prctl(1, signal.SIGKILL) != 0 or os.getppid() != int(sys.argv[1]):
    os._exit(70)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ProcessDiedError(RuntimeError):
    """The process ended too early; the message holds the end of its log."""

    def __init__(self, name: str, returncode: int, log: str) -> None:
        super().__init__(f"{name} ended with {returncode}\n{log}")
        self.returncode = returncode


class ManagedProcess:
    """A command with its own process group, which writes its output to one file.

    The kernel kills it when the test process ends. Leaving the context stops it and all its
    descendants, and keeps the end of its log for the report of a failed test.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        directory: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(str(part) for part in command)
        self.directory = directory
        self.log_path = directory / f"{name}.log"
        self._env = clean_environment(env)
        self._popen: subprocess.Popen[bytes] | None = None
        self._descendants: set[psutil.Process] = set()
        self._final_log_tail: str | None = None
        PROCESSES_OF_TEST.append(self)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()
        self._final_log_tail = self.log_tail()

    def start(self) -> None:
        """Start the command; its output is appended to the log of earlier starts."""
        if self.is_running:
            raise RuntimeError(f"{self.name} is already running")
        self.directory.mkdir(parents=True, exist_ok=True)
        wrapper = (
            [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
            if sys.platform == "linux"
            else []
        )
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [*wrapper, *self.command],
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def set_env(self, env: Mapping[str, str]) -> None:
        """Use `env` from the next start on."""
        self._env = clean_environment(env)

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        return self._started.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative signal number; None while the process runs."""
        return self._started.poll()

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def children(self) -> list[psutil.Process]:
        """Return all living descendants, children before grandchildren."""
        if not self.is_running:
            return []
        try:
            found = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._descendants.update(found)
        return [child for child in found if _is_alive(child)]

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to the process, not to its children; do nothing if it has ended."""
        self.children()
        self._started.send_signal(signum)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send(signal.SIGTERM)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self.send(signal.SIGINT)

    def pause(self) -> None:
        """Freeze the process with SIGSTOP and return when all its threads are stopped."""
        self.send(signal.SIGSTOP)
        # On a busy machine a thread may run on for a moment and answer a request.
        while self.is_running and not _is_frozen(self.pid):
            time.sleep(_POLL)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process with SIGKILL and return when it has ended; its children may live on."""
        self.send(signal.SIGKILL)
        self._started.wait(timeout=10)

    async def wait(self, timeout: float = 10.0) -> int:
        """Wait for the end and return the exit code; raise TimeoutError if the process runs on."""
        with anyio.move_on_after(timeout):
            while True:
                if (code := self.returncode) is not None:
                    return code
                await anyio.sleep(_POLL)
        raise TimeoutError(f"{self.name} is still running after {timeout:g} s\n{self.log_tail()}")

    async def stop(self, grace: float = 10.0) -> None:
        """Stop the process with SIGTERM, after `grace` with SIGKILL, and kill its descendants."""
        if self._popen is None:
            return
        if self.is_running:
            self.terminate()
            self.resume()
            try:
                await self.wait(grace)
            except TimeoutError:
                self.kill()
        await self._end_descendants()

    async def wait_for_log(self, text: str, timeout: float = 20.0) -> None:
        """Wait until the log contains `text`; raise if the process ends before."""
        deadline = time.monotonic() + timeout
        while text not in self.log():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} never logged {text!r}\n{self.log_tail()}")
            await anyio.sleep(_POLL)

    def check_alive(self) -> None:
        """Raise ProcessDiedError if the process has ended."""
        if (code := self.returncode) is not None:
            raise ProcessDiedError(self.name, code, self.log_tail())

    def log(self) -> str:
        """Return the whole log."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def log_tail(self) -> str:
        """Return the end of the log, also after the directory was removed."""
        if not self.log_path.exists():
            return self._final_log_tail or ""
        with self.log_path.open("rb") as log:
            log.seek(max(self.log_path.stat().st_size - TAIL_BYTES, 0))
            return log.read().decode(errors="replace")

    async def _end_descendants(self) -> None:
        for child in self._descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        # `psutil.wait_procs` would wait for process 1 to reap orphans, which may take long.
        while any(_is_alive(child) for child in self._descendants):
            await anyio.sleep(_POLL)
        self._descendants.clear()

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._popen


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# The processes of the current test; the pytest plugin clears the list before each test.
PROCESSES_OF_TEST: Final[list[ManagedProcess]] = []


def _is_frozen(pid: int) -> bool:
    """Return whether all threads of a process are stopped."""
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    try:
        stats = [(thread / "stat").read_text() for thread in threads.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        # A thread ended while its state was read.
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
