import anyio
import pytest

from pyoco_protocol.task_groups import plain_errors


class BrokenError(Exception):
    """An error raised by the tests."""


async def fail(message: str) -> None:
    raise BrokenError(message)


async def test_the_error_of_a_task_is_raised_unwrapped() -> None:
    with pytest.raises(BrokenError, match="alone"), plain_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, "alone")


async def test_the_error_of_a_nested_task_group_is_raised_unwrapped() -> None:
    with pytest.raises(BrokenError, match="deep"), plain_errors():
        async with anyio.create_task_group() as outer, anyio.create_task_group():
            outer.start_soon(fail, "deep")


async def test_two_errors_are_raised_as_a_group() -> None:
    async def fail_twice() -> None:
        with plain_errors():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail, "one")
                tasks.start_soon(fail, "other")

    with pytest.raises(ExceptionGroup) as raised:
        await fail_twice()
    assert {str(error) for error in raised.value.exceptions} == {"one", "other"}


def test_the_cause_of_an_error_is_kept() -> None:
    cause = KeyError("why")

    def raise_group() -> None:
        error = BrokenError("what")
        error.__cause__ = cause
        raise ExceptionGroup("group", [error])

    with pytest.raises(BrokenError) as raised, plain_errors():
        raise_group()
    assert raised.value.__cause__ is cause


def test_errors_without_a_group_are_unchanged() -> None:
    with plain_errors():
        pass
    with pytest.raises(BrokenError, match="bare"), plain_errors():
        raise BrokenError("bare")
    with pytest.raises(KeyboardInterrupt), plain_errors():
        raise BaseExceptionGroup("group", [KeyboardInterrupt()])
