"""The watchdog kills the groups that were added and not removed."""

from hypothesis import given
from hypothesis import strategies as st

from pyoco_worker.children.watchdog_process import groups_left

pids = st.integers(min_value=2, max_value=4_194_304)


@given(st.lists(pids, unique=True), st.lists(pids, unique=True))
def test_added_groups_that_were_not_removed_are_left(added: list[int], removed: list[int]) -> None:
    lines = [*(f"+{pid}\n" for pid in added), *(f"-{pid}\n" for pid in removed)]
    assert groups_left(lines) == set(added) - set(removed)


def test_a_group_number_can_be_reused() -> None:
    assert groups_left(["+7\n", "-7\n", "+7\n"]) == {7}


def test_without_input_no_group_is_left() -> None:
    assert groups_left([]) == set()
