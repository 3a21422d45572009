"""The open files and the memory of event streams."""

import resource
from contextlib import ExitStack

import anyio
import pytest

from pyoco_gateway.streams import resources
from pyoco_gateway.streams.limits import StreamLimits
from pyoco_gateway.streams.resources import StreamMemory, allow_open_files
from pyoco_protocol.settings import WatchSettings
from pyoco_testkit.eventually import eventually


def test_the_limit_of_open_files_is_raised_for_the_streams_and_never_lowered() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        allow_open_files(1000)
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        allow_open_files(10)
        kept, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 1000 < raised == kept


async def test_memory_is_given_back_once_after_many_streams_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back = 0

    def give_back() -> None:
        nonlocal given_back
        given_back += 1

    monkeypatch.setattr(resources, "_CHECK_SEC", 0.001)
    monkeypatch.setattr(resources, "_MIN_STREAMS", 10)
    monkeypatch.setattr(resources, "release_free_memory", give_back)
    limits = StreamLimits(WatchSettings())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(StreamMemory(limits).run)
        with ExitStack() as streams:
            for _ in range(10):
                streams.enter_context(limits.slot("a"))
            await anyio.sleep(0.02)
            assert given_back == 0
        await eventually(lambda: given_back, 1)
        with limits.slot("a"):
            pass
        await anyio.sleep(0.02)
        assert given_back == 1
        tasks.cancel_scope.cancel()
