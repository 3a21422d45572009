"""The functions that the workflow files of the end-to-end tests call."""

import os
import time
from os import system as reexported  # noqa: F401 - what a careless module lets through
from pathlib import Path
from typing import Any

from pyoco import task


def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


@task  # type: ignore[untyped-decorator] # pyoco has no type information
def shout(text: str) -> str:
    """Return the text, louder."""
    return text.upper()


def note(ctx: Any, ledger: str) -> None:
    """Add a line with this run and its attempt to a file."""
    line = f"{os.environ['PYOCO_RUN_ID']} {os.environ['PYOCO_ATTEMPT']}\n"
    with Path(ledger).open("a", encoding="utf-8") as file:
        file.write(line)


def nap(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "rested"


def fail(message: str) -> None:
    """Raise."""
    raise ValueError(message)


def read(path: str) -> str:
    """Return what a file holds; raise where it is not there."""
    return Path(path).read_text(encoding="utf-8")
