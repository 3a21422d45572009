"""Reads the environment of the process; other modules of the SDK do not."""

import os
from collections.abc import Mapping
from pathlib import Path


def variables() -> Mapping[str, str]:
    """Return the current environment variables."""
    return os.environ


def value_of(variables: Mapping[str, str], name: str) -> str | None:
    """Return the value of a variable; None if it is not set or empty."""
    value = variables.get(name, "")
    return value if value.strip() else None


def home() -> Path | None:
    """Return the home directory, or None if the process has none."""
    try:
        return Path.home()
    except RuntimeError:
        return None
