"""Delays before restarts."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.processes.restart_delays import RestartDelays

DELAYS = RestartDelays(first_wait_sec=0.1, longest_wait_sec=5.0, stable_after_sec=10.0)


@given(st.integers(min_value=0, max_value=10**9))
def test_delays_never_decrease_and_stay_within_the_limit(exits: int) -> None:
    assert 0.1 <= DELAYS.wait_sec(exits) <= DELAYS.wait_sec(exits + 1) <= 5.0


def test_delays_double() -> None:
    assert [DELAYS.wait_sec(exits) for exits in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]


def test_an_exit_after_a_long_time_resets_the_count() -> None:
    assert DELAYS.quick_exits(7, ran_sec=9.9) == 8
    assert DELAYS.quick_exits(7, ran_sec=10.0) == 1
