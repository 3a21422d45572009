"""How long to wait before another start."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.processes.restarts import Restarts

RESTARTS = Restarts(first_wait_sec=0.1, longest_wait_sec=5.0, stable_after_sec=10.0)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_wait_never_shrinks_and_never_passes_its_limit(deaths: int) -> None:
    assert 0.1 <= RESTARTS.wait_sec(deaths) <= RESTARTS.wait_sec(deaths + 1) <= 5.0


def test_waits_double() -> None:
    assert [RESTARTS.wait_sec(deaths) for deaths in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]


def test_one_that_lived_long_starts_the_count_anew() -> None:
    assert RESTARTS.quick_deaths(7, lived_sec=9.9) == 8
    assert RESTARTS.quick_deaths(7, lived_sec=10.0) == 1
