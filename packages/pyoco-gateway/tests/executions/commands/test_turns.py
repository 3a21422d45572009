"""Turns of the writers of one execution, also when they are cancelled at any moment."""

import time
from dataclasses import dataclass
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_gateway.executions import turns as module
from pyoco_gateway.executions.turns import Turns


@dataclass(frozen=True)
class Writer:
    """When a writer comes, how long it holds its turn, and when it is cancelled, in steps."""

    comes: int
    holds: int
    is_urgent: bool
    cancelled: int | None


STEPS = st.integers(0, 12)
WRITERS = st.lists(
    st.builds(
        Writer,
        comes=STEPS,
        holds=st.integers(0, 5),
        is_urgent=st.booleans(),
        cancelled=st.none() | STEPS,
    ),
    min_size=1,
    max_size=25,
)


async def pass_steps(steps: int) -> None:
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()


@settings(max_examples=300)
@given(WRITERS)
async def test_there_is_one_holder_at_a_time_and_no_turn_is_lost(writers: list[Writer]) -> None:
    turns = Turns()
    holders = 0
    served: set[int] = set()

    async def write(number: int, writer: Writer, scope: anyio.CancelScope) -> None:
        nonlocal holders
        await pass_steps(writer.comes)
        with scope:
            async with turns.of("a", is_urgent=writer.is_urgent):
                holders += 1
                assert holders == 1
                try:
                    await pass_steps(writer.holds)
                finally:
                    holders -= 1
            served.add(number)

    async def cancel(after: int, scope: anyio.CancelScope) -> None:
        await pass_steps(after)
        scope.cancel()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for number, writer in enumerate(writers):
                scope = anyio.CancelScope()
                tasks.start_soon(write, number, writer, scope)
                if writer.cancelled is not None:
                    tasks.start_soon(cancel, writer.cancelled, scope)

    assert {n for n, writer in enumerate(writers) if writer.cancelled is None} <= served
    assert turns._queues == {}


async def order_of(*kinds: str) -> list[str]:
    """Return the order in which writers get their turns; kinds with a `!` are urgent."""
    turns = Turns()
    order: list[str] = []

    async def write(kind: str) -> None:
        async with turns.of("a", is_urgent=kind.endswith("!")):
            order.append(kind)

    async with anyio.create_task_group() as tasks, turns.of("a"):
        for kind in kinds:
            tasks.start_soon(write, kind)
            await anyio.wait_all_tasks_blocked()
    return order


async def test_writers_are_served_in_the_order_in_which_they_came() -> None:
    assert await order_of("1", "2", "3") == ["1", "2", "3"]


async def test_urgent_writers_go_first_in_their_own_order() -> None:
    assert await order_of("1", "a!", "2", "b!") == ["a!", "b!", "1", "2"]


async def test_executions_do_not_wait_for_each_other() -> None:
    turns = Turns()
    async with turns.of("a"):
        with anyio.fail_after(1):
            async with turns.of("b"):
                pass


async def test_a_turn_is_passed_on_after_an_error() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"):
        async with turns.of("a"):
            raise ValueError("no")
    with anyio.fail_after(1):
        async with turns.of("a"):
            pass


async def moments_of(writers: int, hold_sec: float, *, is_urgent: bool = False) -> list[float]:
    """Return when each of many writers began its turn."""
    turns = Turns()
    moments: list[float] = []

    async def write() -> None:
        async with turns.of("a", is_urgent=is_urgent):
            moments.append(time.monotonic())
            await anyio.sleep(hold_sec)

    async with anyio.create_task_group() as tasks:
        for _ in range(writers):
            tasks.start_soon(write)
    return moments


def longest_gap(moments: list[float]) -> float:
    return max(after - before for before, after in pairwise(moments))


async def test_a_pause_follows_after_many_turns_in_a_row() -> None:
    """It lasts at least as long as a turn, so that another process can write."""
    moments = await moments_of(module._MAX_IN_A_ROW + 1, 0.02)
    assert moments[-1] - moments[-2] >= 0.04


async def test_urgent_writers_do_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause(*_: object) -> None:
        raise AssertionError("an urgent writer waited")

    monkeypatch.setattr(Turns, "_pause", pause)
    assert len(await moments_of(2 * module._MAX_IN_A_ROW, 0, is_urgent=True)) > 0


async def test_a_pause_is_short_even_if_a_turn_was_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn lasts ten seconds while the broker does not answer."""
    monkeypatch.setattr(module, "_MAX_IN_A_ROW", 2)
    moments = await moments_of(3, 0.3)
    assert longest_gap(moments) < 0.3 + module._MAX_PAUSE_SEC + 0.15


async def test_a_writer_that_is_alone_never_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause(*_: object) -> None:
        raise AssertionError("no other writer waits")

    monkeypatch.setattr(Turns, "_pause", pause)
    turns = Turns()
    for _ in range(3 * module._MAX_IN_A_ROW):
        async with turns.of("a"):
            pass
