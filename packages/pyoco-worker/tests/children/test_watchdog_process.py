"""The groups that a worker leaves behind are those it named and did not take back."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_worker.children.watchdog_process import groups_left

pids = st.integers(min_value=2, max_value=4_194_304)


@given(st.lists(pids, unique=True), st.lists(pids, unique=True))
def test_what_was_named_and_not_taken_back_is_left(named: list[int], gone: list[int]) -> None:
    lines = [*(f"+{pid}\n" for pid in named), *(f"-{pid}\n" for pid in gone)]
    assert groups_left(lines) == set(named) - set(gone)


def test_a_number_may_be_used_again() -> None:
    assert groups_left(["+7\n", "-7\n", "+7\n"]) == {7}


def test_without_a_word_nothing_is_killed() -> None:
    assert groups_left([]) == set()
