"""What a process under test takes over from the process that runs the tests."""

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path


def clean_environment(overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without any setting of the product, plus `overrides`.

    A developer's own `PYOCO_*` variables or `.env` file must not decide a test.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYOCO_")}
    # Their log files are read while they run, so nothing may wait in a buffer.
    return {**kept, "PYOCO_LOAD_DOTENV": "0", "PYTHONUNBUFFERED": "1", **(overrides or {})}


def forget_settings() -> None:
    """Remove every setting of the product from our own environment, for tests in this process."""
    for name in [name for name in os.environ if name.startswith("PYOCO_")]:
        del os.environ[name]


def command_path(name: str) -> Path:
    """Return a command of the environment the tests run in, never another one of that name."""
    scripts = (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent)
    for folder in scripts:
        if (found := folder / name).is_file():
            return found
    raise FileNotFoundError(f"{name} is not installed beside {sys.executable}")
