"""What the process has in its environment: the only module here that looks."""

import os
from collections.abc import Mapping
from pathlib import Path


def variables() -> Mapping[str, str]:
    """Return the environment variables as they are now."""
    return os.environ


def home() -> Path | None:
    """Return the home directory; None for a process that has none."""
    try:
        return Path.home()
    except RuntimeError:
        return None
