"""Purged runs, for which the watch delivers no marker."""

from typing import Any

import httpx
import pytest

from pyoco_gateway.index import purge_check
from pyoco_protocol.jetstream import bucket_watch
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()
STREAM = "KV_pyoco_runs"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge_check, "_INTERVAL_SEC", 0.1)


async def put(store: Any, count: int) -> list[str]:
    """Store ended runs, which the reaper ignores; return their ids."""
    runs = [snapshot(status="COMPLETED") for _ in range(count)]
    for run in runs:
        await store.js.publish(NAMES.run(run.run_id), run.to_bytes())
    return [run.run_id for run in runs]


async def listed(gateway: httpx.AsyncClient) -> set[str] | None:
    answer = await gateway.get("/runs?limit=200")
    return {item["run_id"] for item in answer.json()} if answer.status_code == 200 else None


async def test_a_purge_of_the_bucket_empties_the_list(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await eventually(lambda: listed(gateway), set(await put(store, 20)))
    await store.js.purge_stream(STREAM)
    await eventually(lambda: listed(gateway), set())
    # Only runs stored later are listed.
    await eventually(lambda: listed(gateway), set(await put(store, 3)))


async def test_a_purge_of_some_runs_removes_only_those_from_the_list(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = await put(store, 10)
    await eventually(lambda: listed(gateway), set(runs))
    await store.js.purge_stream(STREAM, subject=NAMES.run(runs[4]))
    await eventually(lambda: listed(gateway), set(runs) - {runs[4]})
    await store.js.purge_stream(STREAM, keep=2)
    await eventually(lambda: listed(gateway), set(runs[-2:]))


async def test_markers_of_deleted_runs_do_not_trigger_a_rebuild(
    gateway: httpx.AsyncClient, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs = await put(store, 6)
    for run_id in runs[:3]:
        await store.js.publish(NAMES.run(run_id), b"", headers={"KV-Operation": "DEL"})
    await store.js.publish(NAMES.run(runs[5]), b"unreadable")
    await eventually(lambda: listed(gateway), set(runs[3:5]))
    before = (await store.js.stream_info(STREAM)).state
    for _ in range(20):
        assert await listed(gateway) == set(runs[3:5])
    assert "vanished from the stream" not in caplog.text
    assert before.messages == 6


async def test_an_index_that_never_catches_up_is_rebuilt(
    start_gateway: Any, nats_server: NatsServer, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last records may be purged before the watch delivers them."""
    tell = bucket_watch.BucketWatch._deliver
    skipped: list[object] = []

    def without_the_last(self: bucket_watch.BucketWatch, message: Any) -> None:
        if message.metadata.num_pending == 0 and not skipped:
            skipped.append(message)
            return
        tell(self, message)

    async with start_gateway(nats_server.url) as gateway:
        runs = await put(store, 3)
        await eventually(lambda: listed(gateway), set(runs))
    monkeypatch.setattr(bucket_watch.BucketWatch, "_deliver", without_the_last)
    async with start_gateway(nats_server.url) as gateway:
        await eventually(lambda: listed(gateway), set(runs))
    assert skipped


async def test_lists_are_unavailable_without_the_bucket_and_empty_after_its_recreation(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await eventually(lambda: listed(gateway), set(await put(store, 3)))
    config = (await store.js.stream_info(STREAM)).config
    await store.js.delete_stream(STREAM)
    await eventually(lambda: listed(gateway), None)
    await store.js.add_stream(config)
    await eventually(lambda: listed(gateway), set())


async def test_a_bucket_whose_last_markers_have_expired_is_caught_up_with(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    """Without the markers, the bucket's last sequence is above that of its last message."""
    async with start_gateway(nats_server.url) as gateway:
        runs = await put(store, 2)
        await eventually(lambda: listed(gateway), set(runs))
        cursor = (await gateway.get("/runs?updated_after=0")).json()["resume_cursor"]
    await store.js.publish(NAMES.run(runs[1]), b"", headers={"KV-Operation": "DEL"})
    await store.js.purge_stream(STREAM, subject=NAMES.run(runs[1]))
    async with start_gateway(nats_server.url) as gateway:
        page = await gateway.get(f"/runs?cursor={cursor}")
        index = (await gateway.get("/health?verbose=1")).json()["index"]

    assert (page.status_code, page.json()["items"]) == (200, [])
    assert (index["runs"], index["revision"], index["lag"]) == (1, 3, 0)
