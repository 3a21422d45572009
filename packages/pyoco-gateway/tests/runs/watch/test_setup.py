"""File descriptors and memory used by event streams."""

import resource
from contextlib import ExitStack
from typing import cast

import anyio
import pytest

from pyoco_gateway.runs.index.run_tenants import RunTenants
from pyoco_gateway.runs.watch import setup as watching_module
from pyoco_gateway.runs.watch.hub import RunHub
from pyoco_gateway.runs.watch.setup import Watching, watching
from pyoco_gateway.streams.limits import StreamLimits
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.settings import WatchSettings
from pyoco_testkit.eventually import eventually

NO_BROKER = cast(Broker, None)
NO_STORE = cast(RunStore, None)


def test_the_file_descriptor_limit_is_raised_to_the_number_of_streams() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        watching(
            WatchSettings(sse_max_streams=1000), NO_BROKER, NO_STORE, RunTenants(are_wanted=False)
        )
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        watching(
            WatchSettings(sse_max_streams=10), NO_BROKER, NO_STORE, RunTenants(are_wanted=False)
        )
        kept, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 1000 < raised == kept


async def test_memory_is_released_once_after_many_streams_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = 0

    def release() -> None:
        nonlocal released
        released += 1

    monkeypatch.setattr(watching_module, "_TIDY_SEC", 0.001)
    monkeypatch.setattr(watching_module, "_MANY", 10)
    monkeypatch.setattr(watching_module, "release_free_memory", release)
    limits = StreamLimits(WatchSettings())
    with_limits = Watching(RunHub(NO_STORE), limits, NO_BROKER)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(with_limits.run)
        with ExitStack() as slots:
            for _ in range(10):
                slots.enter_context(limits.slot("a"))
            await anyio.sleep(0.02)
            assert released == 0
        await eventually(lambda: released, 1)
        with limits.slot("a"):
            pass
        await anyio.sleep(0.02)
        assert released == 1
        tasks.cancel_scope.cancel()
