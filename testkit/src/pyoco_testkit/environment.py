"""The environment variables and commands that processes under test get."""

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path


def clean_environment(overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without `PYOCO_*` variables, plus `overrides`.

    The developer's own settings and `.env` file must not change the outcome of a test.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYOCO_")}
    # Tests read the log files of running processes, so the processes must not buffer output.
    return {**kept, "PYOCO_LOAD_DOTENV": "0", "PYTHONUNBUFFERED": "1", **(overrides or {})}


def remove_settings() -> None:
    """Remove all `PYOCO_*` variables from our own environment."""
    for name in [name for name in os.environ if name.startswith("PYOCO_")]:
        del os.environ[name]


def command_path(name: str) -> Path:
    """Return the path of a command in the environment of the tests; PATH is not searched."""
    scripts = (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent)
    for folder in scripts:
        if (found := folder / name).is_file():
            return found
    raise FileNotFoundError(f"{name} is not installed beside {sys.executable}")
