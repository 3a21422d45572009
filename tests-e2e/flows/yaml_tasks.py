"""Functions that workflow files of the end-to-end tests call."""

import os
import sys
import time
from os import system as reexported  # noqa: F401 - a re-export that must not be callable
from pathlib import Path
from typing import Any

from pyoco import task


def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


@task  # type: ignore[untyped-decorator] # pyoco has no type information
def shout(text: str) -> str:
    """Return the text in upper case."""
    return text.upper()


def note(ctx: Any, ledger: str) -> None:
    """Append run id and attempt to a file."""
    line = f"{os.environ['PYOCO_RUN_ID']} {os.environ['PYOCO_ATTEMPT']}\n"
    with Path(ledger).open("a", encoding="utf-8") as file:
        file.write(line)


def nap(seconds: float) -> str:
    """Sleep and return a text."""
    time.sleep(seconds)
    return "rested"


def beside(ctx: Any, directory: str, name: str, other: str) -> str:
    """Print a line, then wait until the other step has started; stop when cancelled."""
    sys.stdout.write(f"this is {name}\n")
    Path(directory, name).touch()
    until = time.monotonic() + 30
    while not Path(directory, other).exists():
        if ctx.is_cancelled or time.monotonic() > until:
            raise RuntimeError(f"{other} has not started")
        time.sleep(0.01)
    return name


def join(left: str, right: str) -> str:
    """Return both texts."""
    return f"{left} and {right}"


def fail(message: str) -> None:
    """Raise ValueError."""
    raise ValueError(message)


def read(path: str) -> str:
    """Return the content of a file; raise if it does not exist."""
    return Path(path).read_text(encoding="utf-8")
