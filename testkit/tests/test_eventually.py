"""`eventually` returns, fails and times out as documented."""

from collections.abc import Iterator
from itertools import count

import anyio
import pytest

from pyoco_testkit.eventually import NeverHappenedError, eventually


def counting() -> Iterator[int]:
    return count(1)


async def test_it_returns_the_expected_value() -> None:
    numbers = counting()
    assert await eventually(lambda: next(numbers), 5) == 5


async def test_a_predicate_may_be_given_instead_of_a_value() -> None:
    numbers = counting()
    assert await eventually(lambda: next(numbers), lambda number: number > 3) == 4


async def test_an_async_probe_is_awaited() -> None:
    numbers = counting()

    async def probe() -> int:
        await anyio.lowlevel.checkpoint()
        return next(numbers)

    assert await eventually(probe, 3) == 3


async def test_the_error_shows_the_last_value() -> None:
    with pytest.raises(NeverHappenedError, match=r"no 'COMPLETED' within 0\.01 s.*'RUNNING'"):
        await eventually(lambda: "RUNNING", "COMPLETED", timeout=0.01)


async def test_an_error_of_the_probe_ends_the_wait_unless_it_is_in_retry_on() -> None:
    answers = iter([ConnectionError("down"), ConnectionError("down"), None])

    def probe() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "up"

    with pytest.raises(ConnectionError):
        await eventually(probe, "up")
    assert await eventually(probe, "up", retry_on=(ConnectionError,)) == "up"


async def test_the_error_shows_the_last_exception_of_the_probe() -> None:
    def probe() -> str:
        raise ConnectionError("still down")

    with pytest.raises(NeverHappenedError, match="still down"):
        await eventually(probe, "up", timeout=0.01, retry_on=(ConnectionError,))


async def test_a_probe_that_hangs_times_out() -> None:
    with pytest.raises(NeverHappenedError, match="did not answer"):
        await eventually(anyio.sleep_forever, None, timeout=0.01)
