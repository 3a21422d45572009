"""Runs that vanish without a word: nobody tells of a purge."""

from typing import Any

import httpx
import pytest

from pyoco_gateway.runs.index import purge_check
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
    """Runs that are over, so that nobody takes care of them."""
    runs = [snapshot(status="COMPLETED") for _ in range(count)]
    for run in runs:
        await store.js.publish(NAMES.run(run.run_id), run.to_bytes())
    return [run.run_id for run in runs]


async def listed(gateway: httpx.AsyncClient) -> set[str] | None:
    answer = await gateway.get("/runs?limit=200")
    return {item["run_id"] for item in answer.json()} if answer.status_code == 200 else None


async def test_a_purge_of_the_bucket_leaves_no_ghosts(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await eventually(lambda: listed(gateway), set(await put(store, 20)))
    await store.js.purge_stream(STREAM)
    await eventually(lambda: listed(gateway), set())
    # And what comes later is there, alone.
    await eventually(lambda: listed(gateway), set(await put(store, 3)))


async def test_a_purge_of_some_runs_takes_those_and_no_others(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    runs = await put(store, 10)
    await eventually(lambda: listed(gateway), set(runs))
    await store.js.purge_stream(STREAM, subject=NAMES.run(runs[4]))
    await eventually(lambda: listed(gateway), set(runs) - {runs[4]})
    await store.js.purge_stream(STREAM, keep=2)
    await eventually(lambda: listed(gateway), set(runs[-2:]))


async def test_marks_of_deleted_runs_are_no_reason_to_read_everything_anew(
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
    assert "reading it anew" not in caplog.text
    assert before.messages == 6


async def test_an_index_that_waits_for_what_never_comes_begins_anew(
    start_gateway: Any, nats_server: NatsServer, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of what there was is purged before it is told: the watch cannot know."""
    tell = bucket_watch.BucketWatch._tell
    skipped: list[object] = []

    def without_the_end(self: bucket_watch.BucketWatch, message: Any) -> None:
        if message.metadata.num_pending == 0 and not skipped:
            skipped.append(message)
            return
        tell(self, message)

    async with start_gateway(nats_server.url) as gateway:
        runs = await put(store, 3)
        await eventually(lambda: listed(gateway), set(runs))
    monkeypatch.setattr(bucket_watch.BucketWatch, "_tell", without_the_end)
    async with start_gateway(nats_server.url) as gateway:
        await eventually(lambda: listed(gateway), set(runs))
    assert skipped


async def test_without_its_bucket_a_list_is_unavailable_and_shows_no_ghosts(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await eventually(lambda: listed(gateway), set(await put(store, 3)))
    config = (await store.js.stream_info(STREAM)).config
    await store.js.delete_stream(STREAM)
    await eventually(lambda: listed(gateway), None)
    await store.js.add_stream(config)
    await eventually(lambda: listed(gateway), set())


async def test_the_last_changes_may_have_left_nothing_behind(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    """Marks of deleted runs expire: then a bucket has come further than all that is left in it."""
    async with start_gateway(nats_server.url) as gateway:
        runs = await put(store, 2)
        await eventually(lambda: listed(gateway), set(runs))
        cursor = (await gateway.get("/runs?updated_after=0")).json()["next_cursor"]
    await store.js.publish(NAMES.run(runs[1]), b"", headers={"KV-Operation": "DEL"})
    await store.js.purge_stream(STREAM, subject=NAMES.run(runs[1]))
    async with start_gateway(nats_server.url) as gateway:
        page = await gateway.get(f"/runs?cursor={cursor}")
        index = (await gateway.get("/health?verbose=1")).json()["index"]

    assert (page.status_code, page.json()["items"]) == (200, [])
    assert (index["runs"], index["revision"], index["lag"]) == (1, 3, 0)
