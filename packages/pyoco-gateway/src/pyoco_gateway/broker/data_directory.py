"""A data directory that one server at a time can use."""

import fcntl
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyoco_protocol.problems import BrokerLockHeldError, CliUsageError, EmbeddedBrokerError

_log = logging.getLogger(__name__)

_LOCK: Final = "lock"
# Streams contain params, results and key records, and the embedded broker has no logins.
_OWNER_ONLY: Final = 0o700
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

    Other users get no access to a directory that is new, empty or our own.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        if not any(directory.iterdir()):
            (directory / _MARKER).write_text(_MARKER_TEXT, encoding="utf-8")
        if clean and not (directory / _MARKER).is_file():
            raise CliUsageError(
                f"--clean: {directory} is not empty and was not created by pyoco-server",
                "pyoco-server dev --clean --data-dir .pyoco/dev",
            )
        _close_to_others(directory)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
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


def _close_to_others(directory: Path) -> None:
    """Remove the access of other users; log a warning where that is not possible.

    A directory with other files is left unchanged, because other users may need it.
    """
    if not stat.S_IMODE(directory.stat().st_mode) & ~_OWNER_ONLY:
        return
    if (directory / _MARKER).is_file():
        # Refused if the directory has another owner, for example that of a mounted volume.
        with suppress(PermissionError):
            directory.chmod(_OWNER_ONLY)
            return
    _log.warning(
        "other users can read the data directory",
        extra={"path": str(directory), "fix": f"chmod 700 {directory}"},
    )


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
