"""Runs a command to its end, as from a shell."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from pyoco_testkit.environment import clean_environment


@dataclass(frozen=True, slots=True)
class Done:
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return stdout, parsed as JSON."""
        return json.loads(self.out)


async def run(
    command: Sequence[str | Path],
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout: float = 40.0,
) -> Done:
    """Run a command to its end; it inherits our environment without the `PYOCO_*` settings."""

    def finish() -> Done:
        done = subprocess.run(
            [str(word) for word in command],
            input=stdin.encode(),
            capture_output=True,
            check=False,
            cwd=directory,
            env=clean_environment(env),
            timeout=timeout,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return await anyio.to_thread.run_sync(finish)
