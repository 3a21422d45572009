"""Runs one command and takes it down when whoever asked for it is gone.

A script of its own: `python -I -S guard.py <grace seconds> <command> ...`, standard library
only. Its stdin is a pipe that nobody writes to. The pipe closes when its owner closes it, and
also when its owner is killed, crashes or is forgotten: then the command's process group gets
SIGTERM and, after the grace, SIGKILL. So stopping on purpose and dying take the same path.

Why a process in between, and not PR_SET_PDEATHSIG on the command alone: that signal exists on
Linux only, it reaches the direct child only (`nats-bootstrap` keeps nats-server as a child of
its own, and leaves it behind when it is stopped), and it is one signal, without a grace.
It is set all the same, so that a guard that is killed takes its command along.
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


class Guard:
    """One command in a process group of its own, and how it ended."""

    def __init__(self, command: list[str], grace_sec: float) -> None:
        self._grace_sec = grace_sec
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._pid = os.getpid()
        if self._libc is not None:
            # Orphans of the command come to us and not to process 1, which may not reap them.
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._wakeups, wakeup = os.pipe()
        os.set_blocking(self._wakeups, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            # A handler, not SIG_IGN: the command would inherit that.
            signal.signal(signum, lambda *_: None)
        # Safe here: this process has one thread.
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=self._die_with_us,  # noqa: PLW1509
        )
        self._status: int | None = None

    def run(self) -> int:
        """Return the command's exit code, once nothing of it is left."""
        while self._status is None and not self._told_to_stop():
            self._reap()
        self._end_group()
        return self._status if self._status is not None else _KILLED_BY + signal.SIGKILL

    def _die_with_us(self) -> None:
        if self._libc is None:
            return
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._pid:
            os._exit(_NOT_STARTED)

    def _told_to_stop(self) -> bool:
        """Wait for something to happen; say whether it means the end."""
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
        # What was killed disappears at once, unless it hangs in the kernel: nobody can help that.
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
            # macOS says EPERM where only zombies are left.
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
    """Run the command of our arguments; return its exit code."""
    grace_sec, command = float(sys.argv[1]), sys.argv[2:]
    try:
        guard = Guard(command, grace_sec)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_STARTED
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
