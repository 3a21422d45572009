"""Limits of a child process: memory, CPU time, size of files, number of processes."""

import errno
import math
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

LimitName = Literal["memory_bytes", "cpu_sec", "file_bytes", "processes"]

# Native code can crash without memory, so a child keeps this much to report the end of its run.
_REPORT_BYTES: Final = 67_108_864
# The exit code of a child that has no memory left to report anything.
OUT_OF_MEMORY_EXIT: Final = 86

_WORDS: Final[Mapping[LimitName, tuple[str, str]]] = {
    "memory_bytes": ("bytes of memory", "PYOCO_CHILD_MEMORY_BYTES"),
    "cpu_sec": ("seconds of CPU time", "PYOCO_CHILD_CPU_SEC"),
    "file_bytes": ("bytes in one file", "PYOCO_CHILD_FILE_BYTES"),
    "processes": ("processes and threads", "PYOCO_CHILD_PROCESSES"),
}
_LIMIT_OF_SIGNAL: Final[Mapping[int, LimitName]] = {
    signal.SIGXCPU: "cpu_sec",
    signal.SIGXFSZ: "file_bytes",
}


class ChildLimits(BaseModel):
    """The limits of each child of a worker; 0 means no limit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    memory_bytes: int = 0
    cpu_sec: int = 0
    file_bytes: int = 0
    processes: int = 0

    def has(self, name: LimitName) -> bool:
        """Whether this limit is set."""
        return bool(getattr(self, name))

    def sentence(self, name: LimitName) -> str:
        """Return the error text for a run that exceeded this limit."""
        what, variable = _WORDS[name]
        return f"the run exceeded its limit of {getattr(self, name)} {what} ({variable})"

    def behind_exit(self, code: int | None) -> LimitName | None:
        """Return the limit that ended a child with this exit code; None if no limit did."""
        if code is None:
            return None
        name = "memory_bytes" if code == OUT_OF_MEMORY_EXIT else _LIMIT_OF_SIGNAL.get(-code)
        return name if name is not None and self.has(name) else None

    def behind(self, failure: BaseException) -> LimitName | None:
        """Return the limit that an exception of user code comes from; None if there is none."""
        for error in _chain(failure):
            for name in _limits_of(error):
                if self.has(name):
                    return name
        return None


def apply_limits(limits: ChildLimits) -> None:
    """Limit this process and the programs it will start, except for CPU time."""
    # macOS accepts RLIMIT_AS and does not enforce it.
    if limits.memory_bytes and sys.platform == "linux":
        _lower(resource.RLIMIT_AS, limits.memory_bytes, reserve=_REPORT_BYTES)
    if limits.file_bytes:
        _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    if limits.processes:
        _lower(resource.RLIMIT_NPROC, limits.processes)


def begin_cpu_time(limits: ChildLimits) -> None:
    """Give a new run its whole CPU time; the kernel counts the time of all runs of the process.

    Only the soft limit is set: a hard limit could not be raised for the next run.
    """
    if limits.cpu_sec:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = math.ceil(time.process_time()) + limits.cpu_sec
        resource.setrlimit(resource.RLIMIT_CPU, (_at_most(wanted, hard), hard))


def make_room_for_report(limits: ChildLimits) -> None:
    """Let the child use its reserve of memory, because the flow's objects may fill the rest."""
    if limits.memory_bytes and sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _lower(kind: int, value: int, reserve: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (_at_most(value, hard), _at_most(value + reserve, hard)))


def _at_most(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _chain(failure: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: set[int] = set()
    left: list[BaseException] = [failure]
    while left:
        error = left.pop(0)
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            left += error.exceptions
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is not None:
            left.append(cause)


def _limits_of(error: BaseException) -> Iterator[LimitName]:
    match error:
        case MemoryError():
            yield "memory_bytes"
        case OSError(errno=errno.ENOMEM):
            yield "memory_bytes"
        case OSError(errno=errno.EFBIG):
            yield "file_bytes"
        case OSError(errno=errno.EAGAIN) if _is_from_fork(error):
            yield "processes"
        case RuntimeError() if "can't start new thread" in str(error):
            # A thread counts as a process, and needs memory for its stack.
            yield "processes"
            yield "memory_bytes"
        case subprocess.CalledProcessError() if -error.returncode in _LIMIT_OF_SIGNAL:
            yield _LIMIT_OF_SIGNAL[-error.returncode]


def _is_from_fork(error: BaseException) -> bool:
    """Whether starting a process raised the error; sockets and pipes raise EAGAIN too."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    # From Python 3.13 on, `subprocess` starts most programs with `posix_spawn`.
    return "fork" in line or "spawn" in line
