"""What watching takes of the process, and gives back."""

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


def test_as_many_files_may_be_open_as_there_may_be_streams() -> None:
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


async def test_memory_is_given_back_once_after_a_crowd_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back = 0

    def give_back() -> None:
        nonlocal given_back
        given_back += 1

    monkeypatch.setattr(watching_module, "_TIDY_SEC", 0.001)
    monkeypatch.setattr(watching_module, "_MANY", 10)
    monkeypatch.setattr(watching_module, "release_free_memory", give_back)
    limits = StreamLimits(WatchSettings())
    with_limits = Watching(RunHub(NO_STORE), limits, NO_BROKER)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(with_limits.run)
        with ExitStack() as crowd:
            for _ in range(10):
                crowd.enter_context(limits.slot("a"))
            await anyio.sleep(0.02)
            assert given_back == 0
        await eventually(lambda: given_back, 1)
        with limits.slot("a"):
            pass
        await anyio.sleep(0.02)
        assert given_back == 1
        tasks.cancel_scope.cancel()
