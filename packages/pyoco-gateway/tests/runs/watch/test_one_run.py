"""`GET /runs/{run_id}/watch`: what a client is told of one run, and when that ends."""

import json
import time
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.streams import event_stream
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from sse_client import answer_to, watching

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
PATH = f"/runs/{RUN}/watch"
RECORDS = {"a": {"state": "SUCCEEDED", "output": "x\ny\u2028z"}}


async def stored(store: Any, status: str = "PENDING", **fields: Any) -> int:
    """Write the run, as a worker would; return the revision."""
    value = snapshot(run_id=RUN, status=status, **fields).to_bytes()
    return int((await store.js.publish(f"$KV.pyoco_runs.{RUN}", value)).seq)


async def deleted(store: Any) -> None:
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", b"", headers={"KV-Operation": "DEL"})


async def test_a_run_is_told_as_it_is_then_as_it_changes_until_it_is_over(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first = await stored(store)
    before = time.time()
    async with watching(gateway, PATH) as stream:
        events = [await stream.next()]
        second = await stored(store, "RUNNING", updated_at=NOW + 1)
        events.append(await stream.next())
        third = await stored(store, "COMPLETED", updated_at=NOW + 2)
        events += await stream.rest()

    assert [event.name for event in events] == ["snapshot"] * 3
    assert [event.status for event in events] == ["PENDING", "RUNNING", "COMPLETED"]
    assert [event.revision for event in events] == [first, second, third]
    for event in events:
        assert set(event.data) == {"run_id", "snapshot", "ts"}
        assert event.data["run_id"] == RUN == event.data["snapshot"]["run_id"]
        assert before <= event.data["ts"] <= time.time()
    kind = stream.response.headers
    assert kind["Content-Type"] == "text/event-stream; charset=utf-8"
    assert (kind["Cache-Control"], kind["X-Accel-Buffering"]) == ("no-store", "no")


async def test_a_run_that_is_over_is_told_once_and_then_no_more(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    last = await stored(store, "FAILED")
    async with watching(gateway, PATH) as stream:
        (told,) = await stream.rest()
    again = await answer_to(gateway, PATH, last=told.id)

    assert (told.status, told.revision) == ("FAILED", last)
    assert (again.status_code, again.content) == (204, b"")


async def test_who_comes_back_is_told_what_it_has_missed_and_nothing_else(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first = await stored(store)
    async with watching(gateway, PATH, last=first) as stream:
        second = await stored(store, "RUNNING", updated_at=NOW + 1)
        assert (await stream.next("snapshot")).revision == second
    third = await stored(store, "COMPLETED", updated_at=NOW + 2)
    async with watching(gateway, PATH, last=second) as stream:
        assert [event.revision for event in await stream.rest()] == [third]


async def test_an_id_from_a_bucket_that_is_no_more_hides_nothing(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """Revisions begin anew there: a higher one than there is cannot have been seen."""
    last = await stored(store, "COMPLETED")
    async with watching(gateway, PATH, last=last + 1000) as stream:
        assert [event.revision for event in await stream.rest()] == [last]


async def test_since_leaves_out_what_is_older(gateway: httpx.AsyncClient, store: Any) -> None:
    await stored(store, updated_at=NOW)
    async with watching(gateway, PATH, since=NOW) as stream:
        await stored(store, "RUNNING", updated_at=NOW + 1)
        assert (await stream.next("snapshot")).status == "RUNNING"
    async with watching(gateway, PATH, since=NOW + 0.5) as stream:
        assert (await stream.next("snapshot")).status == "RUNNING"
    await stored(store, "COMPLETED", updated_at=NOW + 2)
    async with watching(gateway, PATH, since=NOW + 1) as stream:
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]
    assert (await answer_to(gateway, PATH, since=NOW + 2)).status_code == 204


async def test_since_does_not_hide_an_end_that_was_written_by_a_slow_clock(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store, "RUNNING", updated_at=NOW)
    async with watching(gateway, PATH, since=NOW + 60) as stream:
        await stored(store, "COMPLETED", updated_at=NOW + 1)
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]


WORKER_FIELDS = {"worker_alive", "worker_heartbeat_at", "worker_tags"}


@pytest.mark.parametrize("include", ["records", "full", "all"])
async def test_task_records_come_when_they_are_asked_for(
    gateway: httpx.AsyncClient, store: Any, include: str
) -> None:
    await stored(store, "COMPLETED", task_records=RECORDS, request_hash="h", accepted_by="g")
    async with watching(gateway, PATH) as stream:
        (plain,) = await stream.rest()
    async with watching(gateway, PATH, include=include) as stream:
        (full,) = await stream.rest()

    assert full.data["snapshot"]["task_records"]["a"]["output"] == "x\ny\u2028z"
    assert "task_records" not in plain.data["snapshot"]
    for told in (plain, full):
        assert not {"request_hash", "accepted_by"} & set(told.data["snapshot"])
    # What is known of its worker is not part of the run, and no change of it is told here.
    read = (await gateway.get(f"/runs/{RUN}")).json()
    assert plain.data["snapshot"] == {
        name: value for name, value in read.items() if name not in WORKER_FIELDS
    }


async def test_heartbeats_come_all_the_time_and_leave_the_last_id_alone(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert event_stream.HEARTBEAT_SEC <= 3
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.02)
    await stored(store)
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        beats = [await stream.next("heartbeat") for _ in range(3)]

    for beat in beats:
        assert (beat.id, set(beat.data), beat.data["run_id"]) == (None, {"run_id", "ts"}, RUN)
    times = [beat.data["ts"] for beat in beats]
    assert times == sorted(times)


async def test_changes_without_pause_do_not_keep_heartbeats_back(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.02)
    await stored(store)
    async with watching(gateway, PATH) as stream, anyio.create_task_group() as tasks:

        async def write() -> None:
            for step in range(1, 10_000):
                await stored(store, "RUNNING", updated_at=NOW + step)

        tasks.start_soon(write)
        for _ in range(5):
            await stream.next("heartbeat")
        tasks.cancel_scope.cancel()


async def test_a_heartbeat_of_the_worker_alone_is_no_change(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store, "RUNNING")
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        for beat in range(5):
            await stored(store, "RUNNING", heartbeat_at=NOW + beat)
        changed = await stored(store, "RUNNING", updated_at=NOW + 5)
        assert (await stream.next("snapshot")).revision == changed


async def test_a_stream_ends_when_its_time_is_up_and_says_when_to_come_back(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store)
    async with watching(gateway, PATH, timeout_sec=1) as stream:
        told = await stream.rest()

    assert [event.name for event in told] == ["snapshot", ""]
    assert told[-1].retry == "1000"


async def test_a_run_that_is_deleted_is_told_to_be_gone(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store)
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        await deleted(store)
        (gone,) = await stream.rest()

    assert (gone.name, gone.data["run_id"]) == ("gone", RUN)
    assert (await answer_to(gateway, PATH, last=gone.id)).status_code == 404


async def test_a_record_of_somebody_elses_making_does_not_end_a_stream(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    subject = f"$KV.pyoco_runs.{RUN}"
    await stored(store)
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        await store.js.publish(subject, b'{"not": "a snapshot"}')
        # Its outline can be read, the rest cannot.
        await store.js.publish(subject, json.dumps({"run_id": RUN, "status": "RUNNING"}).encode())
        await stored(store, "COMPLETED", updated_at=NOW + 1)
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]


@pytest.mark.parametrize(
    "run_id", [pytest.param(new_run_id(), id="unknown"), "*", ">", "a.b", "watch"]
)
async def test_a_run_that_is_not_there_is_not_found(
    gateway: httpx.AsyncClient, run_id: str
) -> None:
    answer = await answer_to(gateway, f"/runs/{run_id}/watch")

    assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0005")


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"timeout_sec": 0}, "query.timeout_sec"),
        ({"timeout_sec": 601}, "query.timeout_sec"),
        ({"include": "everything"}, "query.include"),
        ({"since": "nan"}, "query.since"),
        ({"since": "yesterday"}, "query.since"),
        ({"last": "yesterday"}, "header.last-event-id"),
        ({"last": "-1"}, "header.last-event-id"),
    ],
)
async def test_what_cannot_be_understood_is_refused_before_a_stream_begins(
    gateway: httpx.AsyncClient, store: Any, query: dict[str, Any], place: str
) -> None:
    await stored(store)
    answer = await answer_to(gateway, PATH, **query)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert place in answer.json()["detail"].lower()


async def test_without_a_broker_no_stream_begins(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        for path in (PATH, "/runs/watch"):
            answer = await answer_to(gateway, path)
            assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


@pytest.mark.parametrize(
    "limit", [{"PYOCO_SSE_MAX_STREAMS": "2"}, {"PYOCO_SSE_MAX_STREAMS_PER_PEER": "2"}]
)
async def test_streams_above_the_limit_are_told_to_wait_and_find_a_place_later(
    start_gateway: Any, nats_server: NatsServer, store: Any, limit: dict[str, str]
) -> None:
    async with start_gateway(nats_server.url, **limit) as gateway:
        await stored(store)

        async with watching(gateway, PATH) as one, watching(gateway, "/runs/watch") as other:
            await one.next()
            await other.next()
            refused = [await answer_to(gateway, path) for path in (PATH, "/runs/watch")]
            # What was refused has taken no place.
            assert (await answer_to(gateway, PATH)).status_code == 429
        await eventually(lambda: _status(gateway), 200)

    for answer in refused:
        assert (answer.status_code, answer.json()["err_id"]) == (429, "ERR-PYOCO-0104")
        assert int(answer.headers["Retry-After"]) == answer.json()["retry_after_sec"] > 0


async def _status(gateway: httpx.AsyncClient) -> int:
    async with watching(gateway, PATH) as stream:
        return stream.response.status_code
