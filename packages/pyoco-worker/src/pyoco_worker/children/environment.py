"""Which part of the worker's environment user code may see."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

# What programs need to find themselves, their language and their time zone. Everything else may
# be a secret of the worker's (broker credentials among them) and is named by the operator.
ALLOWED: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def child_environment(worker: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Return what of `worker` a child gets: the allowed names and those that match `also`."""
    patterns = (*ALLOWED, *also)
    return {
        name: value
        for name, value in worker.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
