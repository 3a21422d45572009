"""Waits for a condition instead of sleeping."""

import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, TypeVar, overload

import anyio

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.05


class NeverHappenedError(AssertionError):
    """The expected value did not appear in time; the message holds the last value."""


@overload
async def eventually(
    probe: Callable[[], Awaitable[T]],
    expected: object,
    timeout: float = ...,
    *,
    retry_on: tuple[type[Exception], ...] = ...,
) -> T: ...


@overload
async def eventually(
    probe: Callable[[], T],
    expected: object,
    timeout: float = ...,
    *,
    retry_on: tuple[type[Exception], ...] = ...,
) -> T: ...


async def eventually(
    probe: Callable[[], object],
    expected: object,
    timeout: float = 10.0,
    *,
    retry_on: tuple[type[Exception], ...] = (),
) -> object:
    """Return the value of `probe` as soon as it equals `expected` or satisfies that predicate.

    Exceptions of the types in `retry_on` count as "not yet"; other exceptions end the wait.
    """
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    last: str
    while True:
        try:
            value = await _ask(probe, deadline)
        except retry_on as error:
            last = f"the probe raised {error!r}"
        else:
            if _satisfied(value, expected):
                return value
            last = f"the last value was {value!r}"
        if time.monotonic() >= deadline:
            wanted = getattr(expected, "__name__", "it") if callable(expected) else repr(expected)
            raise NeverHappenedError(f"no {wanted} within {timeout:g} s; {last}")
        await anyio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


async def _ask(probe: Callable[[], object], deadline: float) -> object:
    answer = probe()
    if not isawaitable(answer):
        return answer
    remaining = max(deadline - time.monotonic(), 0.0)
    try:
        # A probe that hangs is cancelled. The extra second lets a slow probe answer.
        with anyio.fail_after(remaining + 1.0):
            return await answer
    except TimeoutError as error:
        raise NeverHappenedError("the probe did not answer in time") from error


def _satisfied(value: object, expected: object) -> bool:
    return bool(expected(value)) if callable(expected) else value == expected
