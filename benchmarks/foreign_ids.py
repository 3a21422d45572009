"""Can a tenant tell the id of another tenant's run from an unknown id by the response time?"""

import gc
import math
import random
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Final

from harness.http_connection import HttpConnection, connected
from harness.options import run_benchmark
from harness.report import Report

from pyoco_testkit.api_key_stack import ApiKeyStack
from pyoco_testkit.eventually import eventually

# The number of requests with each kind of id.
SAMPLES: Final = 10_000
FEWER_SAMPLES: Final = 2_000
WARM_UP: Final = 300
IDS: Final = 200
# A larger record takes longer to read; it must not show either.
SMALL_PARAMS: Final = {"n": 1}
LARGE_PARAMS: Final = {"text": "x" * 100_000}
NOT_FOUND: Final = 404

ROUTES: Final = {
    "tasks": ("GET", "/runs/{}/tasks"),
    "watch": ("GET", "/runs/{}/watch"),
    "logs": ("GET", "/runs/{}/logs"),
    "cancel": ("POST", "/runs/{}/cancel"),
    "delete": ("DELETE", "/runs/{}"),
}


async def benchmark(sync_interval: str | None, sync_name: str, rounds: int) -> None:
    """Measure both kinds of ids in turn, so that noise affects both."""
    report = Report("foreign_ids", sync_name)
    no_limits = {"PYOCO_RATE_PER_KEY": "0", "PYOCO_LOG_LEVEL": "warning"}
    async with ApiKeyStack(sync_interval=sync_interval, env=no_limits) as stack:
        key = await stack.issue_key("admin", tenant="other")
        small = [await stack.client.submit("hello", params=SMALL_PARAMS) for _ in range(IDS)]
        large = [await stack.client.submit("hello", params=LARGE_PARAMS) for _ in range(IDS)]
        await eventually(lambda: _known_runs(stack), 2 * IDS, 30)
        unknown, also_unknown = _unknown_ids(), _unknown_ids()
        async with connected(stack.url) as connection:
            probe = _Probe(connection, key)
            for number in range(1, rounds + 1):
                suffix = f"_{number}" if rounds > 1 else ""
                for name, ids in (
                    # Two sets of unknown ids show which differences are noise.
                    ("get_noise", also_unknown),
                    ("get", small),
                    ("get_large", large),
                ):
                    times = await probe.compare("GET", "/runs/{}", ids, unknown, SAMPLES)
                    _add(report, f"{name}{suffix}", *times)
                for name, (method, path) in ROUTES.items():
                    times = await probe.compare(method, path, small, unknown, FEWER_SAMPLES)
                    _add(report, f"{name}{suffix}", *times)
    report.print()


class _Probe:
    """Sends requests of one tenant over one connection."""

    def __init__(self, connection: HttpConnection, key: str) -> None:
        self._connection = connection
        self._headers = {"X-API-Key": key}
        self._random = random.Random(0)

    async def compare(
        self, method: str, path: str, ids: Sequence[str], others: Sequence[str], count: int
    ) -> tuple[list[float], list[float]]:
        """Return the response times of `count` requests with each kind of id, in random order."""
        times: tuple[list[float], list[float]] = ([], [])
        kinds = [0, 1] * (WARM_UP + count)
        self._random.shuffle(kinds)
        gc.disable()
        for kind in kinds:
            at = path.format(self._random.choice(others if kind else ids))
            begun = time.perf_counter()
            status, body = await self._connection.answer(method, at, self._headers)
            times[kind].append(time.perf_counter() - begun)
            if status != NOT_FOUND:
                raise RuntimeError(f"{method} {at}: {status} {body.decode(errors='replace')}")
        gc.enable()
        return times[0][WARM_UP:], times[1][WARM_UP:]


async def _known_runs(stack: ApiKeyStack) -> int:
    counted: int = (await stack.client.http.get("/runs/counts")).json()["total"]
    return counted


def _unknown_ids() -> list[str]:
    return [str(uuid.uuid4()) for _ in range(IDS)]


def _add(report: Report, name: str, times: list[float], others: list[float]) -> None:
    for label, of in (("mean", statistics.mean), ("median", statistics.median)):
        report.add(f"{name}_{label}", of(times) * 1e6, "us", of(others) * 1e6)
    report.add(f"{name}_welch_t", _welch_t(_trimmed(times), _trimmed(others)), "")
    report.add(f"{name}_auc", _auc(times, others), "")


def _trimmed(times: list[float]) -> list[float]:
    """Return the times without the slowest tenth, which only the load of the machine causes."""
    return sorted(times)[: len(times) * 9 // 10]


def _welch_t(times: list[float], others: list[float]) -> float:
    """Return how many standard errors the means are apart; noise alone stays below about 3."""
    error = statistics.variance(times) / len(times) + statistics.variance(others) / len(others)
    return (statistics.mean(times) - statistics.mean(others)) / math.sqrt(error)


def _auc(times: list[float], others: list[float]) -> float:
    """Return how often the first of two requests takes longer: 0.5 if nothing can be told."""
    ordered = sorted([*((each, 1) for each in times), *((each, 0) for each in others)])
    ranks = sum(rank for rank, (_, is_first) in enumerate(ordered, 1) if is_first)
    return (ranks - len(times) * (len(times) + 1) / 2) / (len(times) * len(others))


if __name__ == "__main__":
    run_benchmark(benchmark, __doc__ or "", rounds=1)
