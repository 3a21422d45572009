"""Starts of children that are cancelled or fail: no process and no descriptor is left."""

import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyoco_worker.child_user import ChildUser
from pyoco_worker.children.child_process import ChildProcess, ChildSetup
from worker_fixture import own_children


@pytest.fixture
def setup(tmp_path: Path, flows: str) -> ChildSetup:
    directory = tmp_path / "runs"
    directory.mkdir()
    return ChildSetup(
        resolver=flows,
        import_paths=(),
        max_record_bytes=262_144,
        environment={},
        directory=directory,
    )


def descriptors() -> set[int]:
    """Return the open descriptors of this process."""
    return {number for number in range(1024) if is_open(number)}


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("steps", range(6))
async def test_a_start_that_is_cancelled_after_some_steps_leaves_no_process(
    setup: ChildSetup, steps: int
) -> None:
    before = own_children(""), descriptors()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ChildProcess.start, setup)
        for _ in range(steps):
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert (own_children(""), descriptors()) == before


@pytest.mark.parametrize("user", [None, ChildUser("flows", 65534, 65534, (), "/nonexistent")])
async def test_a_start_that_fails_leaves_no_descriptor(
    setup: ChildSetup, user: ChildUser | None
) -> None:
    before = descriptors()
    setup.directory.rmdir()
    with pytest.raises(FileNotFoundError):
        await ChildProcess.start(replace(setup, user=user))
    assert descriptors() == before
