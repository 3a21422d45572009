"""`GET /runs/watch`: the events for all matching runs."""

from typing import Any

import httpx
import pytest

from pyoco_gateway.runs.watch import hub as run_hub
from pyoco_gateway.streams import event_stream
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.builders import NOW, snapshot
from sse_client import Stream, answer_to, watching

PATH = "/runs/watch"


@pytest.fixture(autouse=True)
def _no_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start streams with new changes only, so that tests do not wait for old ones to age."""
    monkeypatch.setattr(run_hub, "OVERLAP_SEC", 0.0)


async def stored(store: Any, run_id: str, status: str = "PENDING", **fields: Any) -> int:
    value = snapshot(run_id=run_id, status=status, **fields).to_bytes()
    return int((await store.js.publish(f"$KV.pyoco_runs.{run_id}", value)).seq)


async def changes_before(stream: Stream, last: str) -> list[tuple[str, str]]:
    """Return the runs and statuses in the stream before the run `last`."""
    changes: list[tuple[str, str]] = []
    while True:
        event = await stream.next("snapshot", "gone", "reset")
        change = event.data["run_id"], event.name if event.name != "snapshot" else event.status
        if change[0] == last:
            return changes
        changes.append(change)


async def test_every_change_of_a_run_is_sent_without_its_large_fields(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    one, other = new_run_id(), new_run_id()
    async with watching(gateway, PATH) as stream:
        ready = await stream.next()
        revisions = [
            await stored(store, one, params={"secret": 1}, tasks={"a": "PENDING"}),
            await stored(store, other, tag="gpu", worker_id="w1", attempt=2),
            await stored(store, one, "RUNNING", updated_at=NOW + 1),
        ]
        events = [await stream.next("snapshot") for _ in revisions]

    assert (ready.name, ready.data["revision"]) == ("ready", ready.revision)
    assert [event.revision for event in events] == revisions
    assert [event.data["run_id"] for event in events] == [one, other, one]
    assert set(events[1].data) == {"run_id", "snapshot", "ts"}
    assert events[1].data["snapshot"] == {
        "run_id": other,
        "flow_name": "hello",
        "status": "PENDING",
        "tag": "gpu",
        "updated_at": NOW,
        "submitted_at": NOW,
        "start_time": None,
        "end_time": None,
        "worker_id": "w1",
        "attempt": 2,
        "cancel_requested_at": None,
        "workflow_yaml_sha256": None,
    }


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"tag": "gpu"}, {"tag": "gpu"}),
        ({"flow": "report"}, {"flow_name": "report"}),
        ({"flow": "re*"}, {"flow_name": "report"}),
        ({"workflow_yaml_sha256": "abc"}, {"workflow_yaml_sha256": "abc"}),
        ({"status": ["FAILED", "COMPLETED"]}, {"status": "FAILED"}),
        ({"tag": "gpu", "flow": "rep*"}, {"tag": "gpu", "flow_name": "report"}),
    ],
)
async def test_only_matching_runs_are_sent(
    gateway: httpx.AsyncClient, store: Any, query: dict[str, Any], fields: dict[str, Any]
) -> None:
    matching, other = new_run_id(), new_run_id()
    async with watching(gateway, PATH, **query) as stream:
        await stream.next("ready")
        await stored(store, other, flow_name="arrange")
        await stored(store, matching, **fields)
        assert (await stream.next("snapshot")).data["run_id"] == matching


async def test_a_run_that_ceases_to_match_is_sent_once_more(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    matching, other, end = new_run_id(), new_run_id(), new_run_id()
    await stored(store, matching, "RUNNING")
    await stored(store, other)
    async with watching(gateway, PATH, status="RUNNING") as stream:
        await stream.next("ready")
        await stored(store, other, "CANCELLING", updated_at=NOW + 1)
        await stored(store, matching, "CANCELLING", updated_at=NOW + 2)
        # Later changes of the run are not sent.
        await stored(store, matching, "CANCELLED", updated_at=NOW + 3)
        await stored(store, end, "RUNNING")
        assert await changes_before(stream, end) == [(matching, "CANCELLING")]


async def test_a_deleted_run_is_sent_as_gone(gateway: httpx.AsyncClient, store: Any) -> None:
    run_id, end = new_run_id(), new_run_id()
    await stored(store, run_id)
    async with watching(gateway, PATH, tag="default") as stream:
        await stream.next("ready")
        subject = f"$KV.pyoco_runs.{run_id}"
        await store.js.publish(subject, b"", headers={"KV-Operation": "DEL"})
        await stored(store, end)
        assert await changes_before(stream, end) == [(run_id, "gone")]


async def test_worker_heartbeats_are_not_sent(gateway: httpx.AsyncClient, store: Any) -> None:
    run_id, end = new_run_id(), new_run_id()
    async with watching(gateway, PATH) as stream:
        await stream.next("ready")
        for beat in range(5):
            await stored(store, run_id, "RUNNING", heartbeat_at=NOW + beat)
        await stored(store, end)
        assert await changes_before(stream, end) == [(run_id, "RUNNING")]


async def test_a_client_that_reconnects_gets_the_missed_changes(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    first, second, end = new_run_id(), new_run_id(), new_run_id()
    async with watching(gateway, PATH) as stream:
        await stream.next("ready")
        await stored(store, first)
        last = await stream.next("snapshot")
    await stored(store, second)
    await stored(store, first, "RUNNING", updated_at=NOW + 1)
    await stored(store, second, "RUNNING", updated_at=NOW + 2)
    async with watching(gateway, PATH, last=last.id) as stream:
        ready = await stream.next()
        await stored(store, end)
        # The latest change of each run, in the order of revisions.
        assert await changes_before(stream, end) == [(first, "RUNNING"), (second, "RUNNING")]

    # With a higher id, a stream that is cut right after `ready` would lose the changes.
    assert (ready.name, ready.revision) == ("ready", last.revision)


async def test_a_client_that_reconnects_too_late_is_reset(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hub, "MAX_UPDATES", 3)
    first = await stored(store, new_run_id())
    *_, last = [await stored(store, new_run_id()) for _ in range(4)]
    async with watching(gateway, PATH) as stream:
        await stream.next("ready")

    for last_id in (first - 1, last + 1000):
        async with watching(gateway, PATH, last=last_id) as stream:
            reset = await stream.next()
            newer = await stored(store, new_run_id())
            assert (await stream.next()).revision == newer
            assert (reset.name, reset.revision, reset.data["revision"]) == ("reset", last, last)
            last = newer


async def test_a_stream_starts_shortly_before_now(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list read after the stream is open may be behind the stream."""
    monkeypatch.setattr(run_hub, "OVERLAP_SEC", 60.0)
    run_id = new_run_id()
    async with watching(gateway, PATH) as open_before:
        await open_before.next("ready")
        revision = await stored(store, run_id)
        await open_before.next("snapshot")
        async with watching(gateway, PATH) as stream:
            assert (await stream.next("ready")).revision < revision
            assert (await stream.next("snapshot")).revision == revision


async def test_heartbeats_are_sent_all_the_time(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.02)
    async with watching(gateway, PATH) as stream:
        for _ in range(3):
            beat = await stream.next("heartbeat")
            assert (beat.id, set(beat.data)) == (None, {"ts"})


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"status": ["RUNNING", "SLEEPING"]}, "status.1"),
        ({"timeout_sec": 601}, "timeout_sec"),
        ({"last": "yesterday"}, "last-event-id"),
        ({"flow": ["a", "b"]}, "flow: is given more than once"),
    ],
)
async def test_an_invalid_parameter_is_refused_by_name(
    gateway: httpx.AsyncClient, query: dict[str, Any], place: str
) -> None:
    answer = await answer_to(gateway, PATH, **query)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert place in answer.json()["detail"].lower()


async def test_a_gateway_that_still_reads_the_runs_answers_503_with_retry_after(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def still_reading(_: run_hub.RunHub, *, timeout_sec: float) -> bool:
        return timeout_sec < 0

    monkeypatch.setattr(run_hub.RunHub, "wait_until_caught_up", still_reading)

    answer = await answer_to(gateway, PATH)

    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0123")
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize("path", ["/runs/watch", "/dlq"])
async def test_a_parameter_that_is_given_twice_is_refused(
    gateway: httpx.AsyncClient, path: str
) -> None:
    answer = await gateway.get(f"{path}?tag=a&tag=b")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert answer.json()["detail"].startswith("tag: is given more than")


async def test_a_mistyped_filter_of_dead_letters_is_refused(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/dlq?tga=gpu")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert answer.json()["detail"].startswith("tga: is not a")
