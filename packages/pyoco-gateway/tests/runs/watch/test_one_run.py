"""`GET /runs/{run_id}/watch`: the events for one run, and the end of the stream."""

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
    """Write the run as a worker does; return the revision."""
    value = snapshot(run_id=RUN, status=status, **fields).to_bytes()
    return int((await store.js.publish(f"$KV.pyoco_runs.{RUN}", value)).seq)


async def deleted(store: Any) -> None:
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", b"", headers={"KV-Operation": "DEL"})


async def test_the_current_state_and_every_change_are_sent_until_the_run_ends(
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
    headers = stream.response.headers
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")


async def test_an_ended_run_is_sent_once_and_answers_204_afterwards(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    last = await stored(store, "FAILED")
    async with watching(gateway, PATH) as stream:
        (event,) = await stream.rest()
    again = await answer_to(gateway, PATH, last=event.id)

    assert (event.status, event.revision) == ("FAILED", last)
    assert (again.status_code, again.content) == (204, b"")


async def test_a_client_that_reconnects_gets_only_the_missed_changes(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first = await stored(store)
    async with watching(gateway, PATH, last=first) as stream:
        second = await stored(store, "RUNNING", updated_at=NOW + 1)
        assert (await stream.next("snapshot")).revision == second
    third = await stored(store, "COMPLETED", updated_at=NOW + 2)
    async with watching(gateway, PATH, last=second) as stream:
        assert [event.revision for event in await stream.rest()] == [third]


async def test_an_id_from_an_earlier_bucket_hides_nothing(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """A recreated bucket starts with low revisions, so a higher id says nothing about it."""
    last = await stored(store, "COMPLETED")
    async with watching(gateway, PATH, last=last + 1000) as stream:
        assert [event.revision for event in await stream.rest()] == [last]


async def test_since_leaves_out_older_snapshots(gateway: httpx.AsyncClient, store: Any) -> None:
    await stored(store, updated_at=NOW)
    async with watching(gateway, PATH, since=NOW) as stream:
        await stored(store, "RUNNING", updated_at=NOW + 1)
        assert (await stream.next("snapshot")).status == "RUNNING"
    async with watching(gateway, PATH, since=NOW + 0.5) as stream:
        assert (await stream.next("snapshot")).status == "RUNNING"
    await stored(store, "COMPLETED", updated_at=NOW + 2)
    async with watching(gateway, PATH, since=NOW + 1) as stream:
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]


@pytest.mark.parametrize("later", [0, 1, 3600])
async def test_since_at_or_after_the_end_sends_the_last_snapshot_and_ends_the_stream(
    gateway: httpx.AsyncClient, store: Any, later: float
) -> None:
    last = await stored(store, "COMPLETED", updated_at=NOW)
    async with watching(gateway, PATH, since=NOW + later) as stream:
        events = await stream.rest()
    assert [(event.status, event.revision) for event in events] == [("COMPLETED", last)]
    # Only the id of the last event says that the client has it.
    known = await answer_to(gateway, PATH, since=NOW + later, last=last)
    assert (known.status_code, known.content) == (204, b"")
    async with watching(gateway, PATH, since=NOW + later, last=last - 1) as stream:
        assert [event.revision for event in await stream.rest()] == [last]


async def test_since_does_not_hide_an_end_written_with_a_slow_clock(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store, "RUNNING", updated_at=NOW)
    async with watching(gateway, PATH, since=NOW + 60) as stream:
        await stored(store, "COMPLETED", updated_at=NOW + 1)
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]


WORKER_FIELDS = {"worker_alive", "worker_heartbeat_at", "worker_tags"}


@pytest.mark.parametrize("include", ["records", "full", "all"])
async def test_task_records_are_sent_only_on_request(
    gateway: httpx.AsyncClient, store: Any, include: str
) -> None:
    await stored(store, "COMPLETED", task_records=RECORDS, request_hash="h", accepted_by="g")
    async with watching(gateway, PATH) as stream:
        (plain,) = await stream.rest()
    async with watching(gateway, PATH, include=include) as stream:
        (full,) = await stream.rest()

    assert full.data["snapshot"]["task_records"]["a"]["output"] == "x\ny\u2028z"
    assert "task_records" not in plain.data["snapshot"]
    for event in (plain, full):
        assert not {"request_hash", "accepted_by"} & set(event.data["snapshot"])
    # The fields about the worker are not part of the stored run, so the stream has none of them.
    read = (await gateway.get(f"/runs/{RUN}")).json()
    assert plain.data["snapshot"] == {
        name: value for name, value in read.items() if name not in WORKER_FIELDS
    }


async def test_heartbeats_are_sent_all_the_time_without_an_id(
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


async def test_continuous_changes_do_not_delay_heartbeats(
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


async def test_worker_heartbeats_are_not_sent(gateway: httpx.AsyncClient, store: Any) -> None:
    await stored(store, "RUNNING")
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        for beat in range(5):
            await stored(store, "RUNNING", heartbeat_at=NOW + beat)
        changed = await stored(store, "RUNNING", updated_at=NOW + 5)
        assert (await stream.next("snapshot")).revision == changed


async def test_a_stream_ends_after_its_timeout_with_a_retry_field(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await stored(store)
    async with watching(gateway, PATH, timeout_sec=1) as stream:
        events = await stream.rest()

    assert [event.name for event in events] == ["snapshot", ""]
    assert events[-1].retry == "1000"


async def test_a_deleted_run_is_sent_as_gone(gateway: httpx.AsyncClient, store: Any) -> None:
    await stored(store)
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        await deleted(store)
        (gone,) = await stream.rest()

    assert (gone.name, gone.data["run_id"]) == ("gone", RUN)
    assert (await answer_to(gateway, PATH, last=gone.id)).status_code == 404


async def test_an_invalid_record_does_not_end_a_stream(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    subject = f"$KV.pyoco_runs.{RUN}"
    await stored(store)
    async with watching(gateway, PATH) as stream:
        await stream.next("snapshot")
        await store.js.publish(subject, b'{"not": "a snapshot"}')
        # The outline of this record is valid, the rest is not.
        await store.js.publish(subject, json.dumps({"run_id": RUN, "status": "RUNNING"}).encode())
        await stored(store, "COMPLETED", updated_at=NOW + 1)
        assert [event.status for event in await stream.rest()] == ["COMPLETED"]


@pytest.mark.parametrize(
    "run_id", [pytest.param(new_run_id(), id="unknown"), "*", ">", "a.b", "watch"]
)
async def test_an_unknown_run_is_not_found(gateway: httpx.AsyncClient, run_id: str) -> None:
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
async def test_an_invalid_parameter_is_refused_before_the_stream_starts(
    gateway: httpx.AsyncClient, store: Any, query: dict[str, Any], place: str
) -> None:
    await stored(store)
    answer = await answer_to(gateway, PATH, **query)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert place in answer.json()["detail"].lower()


async def test_no_stream_starts_without_the_broker(
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
async def test_streams_above_the_limit_are_refused_until_others_end(
    start_gateway: Any, nats_server: NatsServer, store: Any, limit: dict[str, str]
) -> None:
    async with start_gateway(nats_server.url, **limit) as gateway:
        await stored(store)

        async with watching(gateway, PATH) as one, watching(gateway, "/runs/watch") as other:
            await one.next()
            await other.next()
            refused = [await answer_to(gateway, path) for path in (PATH, "/runs/watch")]
            # Refused streams do not count.
            assert (await answer_to(gateway, PATH)).status_code == 429
        await eventually(lambda: _status(gateway), 200)

    for answer in refused:
        assert (answer.status_code, answer.json()["err_id"]) == (429, "ERR-PYOCO-0104")
        assert int(answer.headers["Retry-After"]) == answer.json()["retry_after_sec"] > 0


async def _status(gateway: httpx.AsyncClient) -> int:
    async with watching(gateway, PATH) as stream:
        return stream.response.status_code
