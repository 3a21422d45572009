"""The command line of all benchmarks."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

# The default of nats-server.
_DEFAULT_SYNC_INTERVAL: Final = "2m"

Benchmark = Callable[[str | None, str, int], Awaitable[None]]


def run_benchmark(benchmark: Benchmark, description: str, *, rounds: int = 3) -> None:
    """Call `benchmark` with the sync interval, its name, and the number of rounds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--sync",
        choices=["always", "default", "both"],
        default="always",
        help="when the broker flushes to disk: before each answer, or every two minutes",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=rounds,
        help="number of measurements; reports the median",
    )
    chosen = parser.parse_args()
    for setting in ("always", None):
        if chosen.sync in ("both", "always" if setting else "default"):
            name = setting or _DEFAULT_SYNC_INTERVAL
            anyio.run(benchmark, setting, name, chosen.rounds)
