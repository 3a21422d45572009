"""A data directory that one server at a time can use."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyoco_protocol.problems import BrokerLockHeldError, CliUsageError, EmbeddedBrokerError

_LOCK: Final = "lock"
# `--clean` only empties directories that contain this file.
_MARKER: Final = ".pyoco-data"
_MARKER_TEXT: Final = (
    "This directory was created by pyoco-server and contains only its data.\n"
    "`--clean` deletes everything in it.\n"
)
# The broker of a killed server holds the lock until it has stopped, which takes at most this long.
_RELEASE_SEC: Final = 8.0
_POLL_SEC: Final = 0.05


@contextmanager
def locked_directory(directory: Path, *, clean: bool = False) -> Iterator[int]:
    """Lock `directory`; yield the descriptor of the lock.

    A child process that inherits the descriptor holds the lock too: the broker keeps it until it
    has ended, even if this process is killed. `clean` empties the directory first.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not any(directory.iterdir()):
            (directory / _MARKER).write_text(_MARKER_TEXT, encoding="utf-8")
        if clean and not (directory / _MARKER).is_file():
            raise CliUsageError(
                f"--clean: {directory} is not empty and was not created by pyoco-server",
                "pyoco-server dev --clean --data-dir .pyoco/dev",
            )
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise EmbeddedBrokerError(
            f"the data directory {directory} cannot be used: {error.strerror}; "
            "choose another with --data-dir"
        ) from error
    try:
        _acquire(lock, directory)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        if clean:
            _empty(directory)
        yield lock
    finally:
        os.close(lock)


def _acquire(lock: int, directory: Path) -> None:
    deadline = time.monotonic() + _RELEASE_SEC
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(lock)
            if _lives(holder) or time.monotonic() > deadline:
                raise BrokerLockHeldError(str(directory), holder) from None
            time.sleep(_POLL_SEC)
        else:
            return


def _holder(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _lives(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name in (_LOCK, _MARKER):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
