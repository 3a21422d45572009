"""Token buckets."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_gateway.http.rate_limiter import RateLimiter


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_a_burst_one_token_comes_per_step() -> None:
    clock = Clock()
    rates = RateLimiter(4.0, 3, clock=clock)

    assert [rates.wait_for("a") for _ in range(4)] == [0, 0, 0, pytest.approx(0.25, abs=1e-3)]
    clock.now += 0.25
    assert [bool(rates.wait_for("a")) for _ in range(2)] == [False, True]
    # After a pause the bucket is full again.
    clock.now += 60
    assert [bool(rates.wait_for("a")) for _ in range(4)] == [False, False, False, True]


def test_each_key_has_its_own_bucket() -> None:
    rates = RateLimiter(1.0, 1, clock=Clock())

    assert [bool(rates.wait_for(who)) for who in ("a", "b", "a", "c", "b")] == [
        *(False, False, True, False, True)
    ]


@given(
    st.floats(0.1, 1000),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 30)), max_size=30),
)
def test_no_interval_gets_more_than_the_burst_plus_the_rate(
    per_sec: float, burst: int, asked: list[tuple[float, int]]
) -> None:
    clock = Clock()
    rates = RateLimiter(per_sec, burst, clock=clock)
    granted: list[float] = []
    for pause, times in asked:
        clock.now += pause
        for _ in range(times):
            if not rates.wait_for("a"):
                granted.append(clock.now)
    for first, since in enumerate(granted):
        for last, until in enumerate(granted[first:], first):
            assert last - first + 1 <= burst + (until - since) * per_sec + 1e-3 * per_sec


@example(3.0, 2, [0.0, 0.0, 0.0])
@given(st.floats(0.1, 1000), st.integers(1, 50), st.lists(st.floats(0, 2), max_size=60))
def test_a_retry_after_the_returned_wait_succeeds(
    per_sec: float, burst: int, pauses: list[float]
) -> None:
    clock = Clock()
    rates = RateLimiter(per_sec, burst, clock=clock)
    for pause in pauses:
        clock.now += pause
        while wait := rates.wait_for("a"):
            clock.now += wait
            assert not rates.wait_for("a")
            break


def test_unused_buckets_are_dropped() -> None:
    clock = Clock()
    rates = RateLimiter(10.0, 10, clock=clock)
    for number in range(100):
        rates.wait_for(number)
    assert len(rates) == 100
    for _ in range(2):
        clock.now += 1.0
        rates.wait_for("somebody")
    assert len(rates) <= 2


def test_a_bucket_in_use_is_kept() -> None:
    clock = Clock()
    rates = RateLimiter(1.0, 10, clock=clock)
    waits = []
    for _ in range(100):
        clock.now += 0.5
        waits.append(rates.wait_for("busy"))
    # A burst of ten, and one token for each of fifty seconds.
    assert math.isclose(sum(not wait for wait in waits), 60, abs_tol=1)


def test_the_number_of_buckets_is_bounded() -> None:
    rates = RateLimiter(0.001, 10, clock=Clock(), max_kept=50)
    for number in range(10_000):
        rates.wait_for(number)
        assert len(rates) <= 100
