"""Runs one command and stops it when the process that started this script has gone.

A standalone script with the standard library only:
`python -I -S watchdog.py <grace seconds> <command> ...`. Its stdin is a pipe without data. The
pipe closes when its owner closes it, and also when the owner crashes or is killed. Then the
command's process group gets SIGTERM and, after the grace period, SIGKILL. A normal stop and the
death of the owner take the same path.

PR_SET_PDEATHSIG alone is not enough: it exists on Linux only, it is a single signal without a
grace period, and it reaches only the direct child (`nats-bootstrap` starts nats-server as its own
child and does not stop it). It is set as well, so that a killed watchdog takes its command along.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SEC = 0.01
_NOT_STARTED = 127
_KILLED_BY = 128


class Watchdog:
    """One command in its own process group."""

    def __init__(self, command: list[str], grace_sec: float) -> None:
        self._grace_sec = grace_sec
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._pid = os.getpid()
        if self._libc is not None:
            # This process adopts orphans of the command; process 1 might not reap them.
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._wakeups, wakeup = os.pipe()
        os.set_blocking(self._wakeups, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            # A handler, not SIG_IGN, which the command would inherit.
            signal.signal(signum, lambda *_: None)
        # Safe here: this process has one thread.
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=self._die_with_parent,  # noqa: PLW1509
        )
        self._status: int | None = None

    def run(self) -> int:
        """Return the command's exit code, once its whole process group has ended."""
        while self._status is None and not self._should_stop():
            self._reap()
        self._end_group()
        return self._status if self._status is not None else _KILLED_BY + signal.SIGKILL

    def _die_with_parent(self) -> None:
        if self._libc is None:
            return
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._pid:
            os._exit(_NOT_STARTED)

    def _should_stop(self) -> bool:
        """Wait for a signal or the pipe; return whether to stop the command."""
        ready, _, _ = select.select([sys.stdin.fileno(), self._wakeups], [], [])
        signals = os.read(self._wakeups, 4096) if self._wakeups in ready else b""
        if any(signum != signal.SIGCHLD for signum in signals):
            return True
        return sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 4096)

    def _end_group(self) -> None:
        self._signal_group(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_sec
        while self._group_lives() and time.monotonic() < deadline:
            time.sleep(_POLL_SEC)
        self._signal_group(signal.SIGKILL)
        # Killed processes disappear at once, unless they hang in the kernel.
        deadline = time.monotonic() + 1.0
        while self._group_lives() and time.monotonic() < deadline:
            time.sleep(_POLL_SEC)

    def _group_lives(self) -> bool:
        self._reap()
        return self._signal_group(0)

    def _signal_group(self, signum: int) -> bool:
        try:
            os.killpg(self._child.pid, signum)
        except (ProcessLookupError, PermissionError):
            # macOS returns EPERM if only zombies are left.
            return False
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child.pid:
                code = os.waitstatus_to_exitcode(status)
                self._status = self._child.returncode = code if code >= 0 else _KILLED_BY - code


def main() -> int:
    """Run the command in the arguments; return its exit code."""
    grace_sec, command = float(sys.argv[1]), sys.argv[2:]
    try:
        watchdog = Watchdog(command, grace_sec)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_STARTED
    return watchdog.run()


if __name__ == "__main__":
    sys.exit(main())
