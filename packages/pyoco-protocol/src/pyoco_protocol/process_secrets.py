"""Hides the environment and the passwords on the command line of a server process.

The kernel shows both, as they were when the program was started, to every process of the same user:
`/proc/<pid>/environ`, `/proc/<pid>/cmdline`, `ps`. Flows are such processes. Deleting a variable
does not change it there, so the process executes its own program again, without them.
"""

import ctypes
import json
import os
import re
import sys
import tempfile
from fnmatch import fnmatchcase
from typing import Final, NoReturn

# The descriptor of the file with the hidden environment, while the program is started again.
_HIDDEN_FD: Final = "PYOCO_HIDDEN_ENVIRONMENT_FD"
# Variables that the interpreter and the loader read before the others are restored. All flows get
# most of them from the worker.
_KEPT: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "PYTHON*",
    "VIRTUAL_ENV",
    "LD_*",
    "DYLD_*",
    "COVERAGE_*",
)
# Up to the last `@` of the host part, because a password may contain one.
_LOGIN_IN_URL: Final = re.compile(r"(?<=://)[^/\s]+(?=@)")
_PR_SET_DUMPABLE: Final = 4


def hide_environment() -> None:
    """Execute the program of this process again, without its environment; return the second time.

    The process keeps its id. The environment travels in a file without a name, and is restored
    in memory, so that the rest of the program finds it. So are the arguments: on the new command
    line, logins in URLs are replaced by `***`.
    """
    number = os.environ.pop(_HIDDEN_FD, None)
    if number is None:
        _execute_again()
    protect_memory()
    with os.fdopen(int(number), "rb") as file:
        file.seek(0)
        saved = json.load(file)
    os.environ.update({name: os.fsdecode(bytes.fromhex(value)) for name, value in saved["environ"]})
    sys.argv[1:] = saved["arguments"]


def protect_memory() -> None:
    """On Linux, keep other processes of the same user from reading the memory of this one.

    They can neither trace it nor read its files in `/proc`. Root can.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def without_logins(argument: str) -> str:
    """Return an argument with `***` in place of the user and password of each URL."""
    return _LOGIN_IN_URL.sub("***", argument)


def _execute_again() -> NoReturn:
    hidden = {name: value for name, value in os.environb.items() if not _is_kept(name)}
    file = _nameless_file()
    saved = {
        "environ": [(os.fsdecode(name), value.hex()) for name, value in hidden.items()],
        "arguments": sys.argv[1:],
    }
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(json.dumps(saved).encode())
    os.set_inheritable(file, True)
    visible = {name: value for name, value in os.environb.items() if name not in hidden}
    visible[_HIDDEN_FD.encode()] = str(file).encode()
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = [without_logins(each) for each in sys.orig_argv]
    os.execve(sys.executable, arguments, visible)  # noqa: S606 - this program again


def _is_kept(name: bytes) -> bool:
    return any(fnmatchcase(os.fsdecode(name), pattern) for pattern in _KEPT)


def _nameless_file() -> int:
    # Only Linux has files in memory.
    create = getattr(os, "memfd_create", None)
    if create is not None:
        return int(create("environment"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
