"""Runs measurements in a separate process, so that they do not slow down the benchmark."""

import importlib.util
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio

_BENCHMARKS: Final = Path(__file__).parent.parent

Measurement = Callable[[str, int, int], Awaitable[dict[str, Any]]]


async def measured(
    measurement: Measurement, url: str, count: int, in_flight: int, given: str = ""
) -> Any:
    """Run `measurement`, a function of a module that calls `serve`, in another process.

    `given` is its standard input.
    """
    done = await anyio.run_process(
        [
            *(sys.executable, "-m", measurement.__module__, measurement.__name__),
            *(url, str(count), str(in_flight)),
        ],
        cwd=_BENCHMARKS,
        input=given.encode(),
        stderr=None,
    )
    return json.loads(done.stdout)


def serve(*measurements: Measurement) -> None:
    """Run the measurement named on the command line and print its result as JSON."""
    name, url, count, in_flight = sys.argv[1:]
    (chosen,) = (each for each in measurements if each.__name__ == name)
    found = anyio.run(
        chosen, url, int(count), int(in_flight), backend_options={"use_uvloop": _has_uvloop()}
    )
    # Not `print`: if PYTHONUNBUFFERED is set, it can lose a part of a long text.
    with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as output:
        json.dump(found, output)


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _has_uvloop() -> bool:
    # The measured system uses uvloop; a slower floor would make it look better than it is.
    return importlib.util.find_spec("uvloop") is not None
