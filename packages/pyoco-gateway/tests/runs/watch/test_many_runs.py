"""`GET /runs/watch`: what a client is told of all the runs that it wants to see."""

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
def _nothing_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams begin with what comes, so that a test need not wait until what was is old."""
    monkeypatch.setattr(run_hub, "OVERLAP_SEC", 0.0)


async def stored(store: Any, run_id: str, status: str = "PENDING", **fields: Any) -> int:
    value = snapshot(run_id=run_id, status=status, **fields).to_bytes()
    return int((await store.js.publish(f"$KV.pyoco_runs.{run_id}", value)).seq)


async def told(stream: Stream, last: str) -> list[tuple[str, str]]:
    """Return which runs the stream tells of, and their statuses, up to the run `last`."""
    seen: list[tuple[str, str]] = []
    while True:
        event = await stream.next("snapshot", "gone", "reset")
        shown = event.data["run_id"], event.name if event.name != "snapshot" else event.status
        if shown[0] == last:
            return seen
        seen.append(shown)


async def test_every_run_is_told_as_it_changes_in_short_form(
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
    ("query", "fitting"),
    [
        ({"tag": "gpu"}, {"tag": "gpu"}),
        ({"flow": "report"}, {"flow_name": "report"}),
        ({"flow": "re*"}, {"flow_name": "report"}),
        ({"workflow_yaml_sha256": "abc"}, {"workflow_yaml_sha256": "abc"}),
        ({"status": ["FAILED", "COMPLETED"]}, {"status": "FAILED"}),
        ({"tag": "gpu", "flow": "rep*"}, {"tag": "gpu", "flow_name": "report"}),
    ],
)
async def test_only_runs_that_are_wanted_are_told(
    gateway: httpx.AsyncClient, store: Any, query: dict[str, Any], fitting: dict[str, Any]
) -> None:
    wanted, other = new_run_id(), new_run_id()
    async with watching(gateway, PATH, **query) as stream:
        await stream.next("ready")
        await stored(store, other, flow_name="arrange")
        await stored(store, wanted, **fitting)
        assert (await stream.next("snapshot")).data["run_id"] == wanted


async def test_a_run_that_is_no_longer_wanted_is_told_once_more(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    seen, unseen, end = new_run_id(), new_run_id(), new_run_id()
    await stored(store, seen, "RUNNING")
    await stored(store, unseen)
    async with watching(gateway, PATH, status="RUNNING") as stream:
        await stream.next("ready")
        await stored(store, unseen, "CANCELLING", updated_at=NOW + 1)
        await stored(store, seen, "CANCELLING", updated_at=NOW + 2)
        # A client that saw it go need not hear of the rest.
        await stored(store, seen, "CANCELLED", updated_at=NOW + 3)
        await stored(store, end, "RUNNING")
        assert await told(stream, end) == [(seen, "CANCELLING")]


async def test_a_run_that_is_deleted_is_told_to_be_gone(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id, end = new_run_id(), new_run_id()
    await stored(store, run_id)
    async with watching(gateway, PATH, tag="default") as stream:
        await stream.next("ready")
        subject = f"$KV.pyoco_runs.{run_id}"
        await store.js.publish(subject, b"", headers={"KV-Operation": "DEL"})
        await stored(store, end)
        assert await told(stream, end) == [(run_id, "gone")]


async def test_heartbeats_of_workers_are_no_changes(gateway: httpx.AsyncClient, store: Any) -> None:
    run_id, end = new_run_id(), new_run_id()
    async with watching(gateway, PATH) as stream:
        await stream.next("ready")
        for beat in range(5):
            await stored(store, run_id, "RUNNING", heartbeat_at=NOW + beat)
        await stored(store, end)
        assert await told(stream, end) == [(run_id, "RUNNING")]


async def test_who_comes_back_is_told_what_it_has_missed(
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
        # The latest of each, and in the order in which it came about.
        assert await told(stream, end) == [(first, "RUNNING"), (second, "RUNNING")]

    # An id beyond what is told next would lose that, were the stream cut right after it.
    assert (ready.name, ready.revision) == ("ready", last.revision)


async def test_who_comes_back_too_late_is_told_to_read_its_list_anew(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hub, "MAX_UPDATES", 3)
    first = await stored(store, new_run_id())
    *_, last = [await stored(store, new_run_id()) for _ in range(4)]
    async with watching(gateway, PATH) as stream:
        await stream.next("ready")

    for seen in (first - 1, last + 1000):
        async with watching(gateway, PATH, last=seen) as stream:
            reset = await stream.next()
            newer = await stored(store, new_run_id())
            assert (await stream.next()).revision == newer
            assert (reset.name, reset.revision, reset.data["revision"]) == ("reset", last, last)
            last = newer


async def test_a_stream_begins_a_moment_ago_so_that_nothing_falls_before_it(
    gateway: httpx.AsyncClient, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is read once the stream is open may lag behind the stream."""
    monkeypatch.setattr(run_hub, "OVERLAP_SEC", 60.0)
    run_id = new_run_id()
    async with watching(gateway, PATH) as open_before:
        await open_before.next("ready")
        revision = await stored(store, run_id)
        await open_before.next("snapshot")
        async with watching(gateway, PATH) as stream:
            assert (await stream.next("ready")).revision < revision
            assert (await stream.next("snapshot")).revision == revision


async def test_heartbeats_come_all_the_time(
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
        ({"state": "FAILED"}, "state: is not a parameter; there are flow, status, tag"),
    ],
)
async def test_what_cannot_be_understood_is_refused_and_named(
    gateway: httpx.AsyncClient, query: dict[str, Any], place: str
) -> None:
    answer = await answer_to(gateway, PATH, **query)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert place in answer.json()["detail"].lower()


async def test_who_cannot_be_told_of_all_runs_yet_hears_when_to_come_back(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def still_reading(_: run_hub.RunHub, *, timeout_sec: float) -> bool:
        return timeout_sec < 0

    monkeypatch.setattr(run_hub.RunHub, "wait_until_caught_up", still_reading)

    answer = await answer_to(gateway, PATH)

    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0123")
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize("path", ["/runs/watch", "/dlq"])
async def test_a_query_with_a_typing_error_is_refused_rather_than_show_everything(
    gateway: httpx.AsyncClient, path: str
) -> None:
    for query, fault in (("tga=gpu", "tga: is not a"), ("tag=a&tag=b", "tag: is given more than")):
        answer = await gateway.get(f"{path}?{query}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
        assert answer.json()["detail"].startswith(fault)
