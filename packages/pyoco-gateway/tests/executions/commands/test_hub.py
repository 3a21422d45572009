"""The hub: it wakes the tasks that wait for one execution."""

import anyio
import pytest

from pyoco_gateway.executions.feed import CommitChange
from pyoco_gateway.executions.hub import ExecutionHub, Listener


def change(execution_id: str) -> CommitChange:
    return CommitChange(execution_id, 1, None, None, 0.0, 0)


async def is_woken(listener: Listener) -> bool:
    """Return whether `wait` returns at once."""
    with anyio.move_on_after(0.01):
        await listener.wait()
        return True
    return False


async def test_a_change_wakes_all_tasks_that_wait_for_the_execution() -> None:
    hub = ExecutionHub()
    with hub.listening("a") as first, hub.listening("a") as second, hub.listening("b") as other:
        hub.on_change(change("a"))
        assert [await is_woken(each) for each in (first, second, other)] == [True, True, False]


async def test_a_change_before_the_wait_is_not_missed_and_is_told_once() -> None:
    hub = ExecutionHub()
    with hub.listening("a") as listener:
        hub.on_change(change("a"))
        hub.on_change(change("a"))
        assert [await is_woken(listener) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("name", ["on_reset", "on_resumed"])
async def test_all_are_woken_when_changes_may_have_been_missed(name: str) -> None:
    hub = ExecutionHub()
    with hub.listening("a") as first, hub.listening("b") as second:
        getattr(hub, name)()
        assert [await is_woken(each) for each in (first, second)] == [True, True]


async def test_the_end_of_stored_commits_wakes_no_task() -> None:
    hub = ExecutionHub()
    with hub.listening("a") as listener:
        hub.on_caught_up()
        assert not await is_woken(listener)


def test_nothing_is_kept_of_listeners_that_are_closed() -> None:
    hub = ExecutionHub()
    with hub.listening("a"), hub.listening("a"):
        pass
    hub.on_change(change("a"))
    assert hub._listeners == {}
