"""`GET /executions/{id}/stream`: the events of an execution as server-sent events."""

from typing import TYPE_CHECKING

import anyio
import httpx
import pytest

from execution_requests import completed, created, post, refusal
from key_admin import Keyed, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.streams import event_stream
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from sse_client import Event, Stream, answer_to, stalled_reader, watching

if TYPE_CHECKING:
    from conftest import StartGateway

SCOPES = (
    KeyScope.RUNS_READ,
    KeyScope.EXECUTIONS_READ,
    KeyScope.EXECUTIONS_WRITE,
    KeyScope.GRAPHS_WRITE,
)


def seqs(events: list[Event]) -> list[int]:
    return [event.revision for event in events if event.name == "event"]


async def test_a_stream_tells_the_state_every_event_and_the_end(
    gateway: httpx.AsyncClient,
) -> None:
    path = await created(gateway)
    before = (await gateway.get(path)).json()
    async with watching(gateway, f"{path}/stream") as stream:
        snapshot = await stream.next()
        await post(gateway, f"{path}/nodes/t/start")
        started = await stream.next("event")
        await post(gateway, f"{path}/nodes/t/success", output={"ok": True})
        rest = await stream.rest()
    assert (snapshot.name, snapshot.revision, snapshot.data) == ("snapshot", before["seq"], before)
    events = [started, *rest[:-1]]
    after = (await gateway.get(path)).json()
    assert seqs(events) == list(range(before["seq"] + 1, after["seq"] + 1))
    page = await gateway.get(f"{path}/events", params={"afterSeq": before["seq"]})
    assert [event.data for event in events] == page.json()["items"]
    assert (rest[-1].name, rest[-1].id) == ("end", None)
    assert rest[-1].data == {"status": "COMPLETED", "seq": after["seq"]}
    headers = stream.response.headers
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-store", "no")


@pytest.mark.parametrize("is_header", [True, False])
async def test_a_client_resumes_with_a_header_or_a_parameter(
    gateway: httpx.AsyncClient, is_header: bool
) -> None:
    path = await completed(gateway)
    last = (await gateway.get(path)).json()["seq"]
    for seq in (0, 1, last - 1):
        resumed = {"last": seq} if is_header else {"afterSeq": seq}
        async with watching(gateway, f"{path}/stream", **resumed) as stream:
            assert seqs(await stream.rest()) == list(range(seq + 1, last + 1))
    resumed = {"last": last} if is_header else {"afterSeq": last}
    over = await answer_to(gateway, f"{path}/stream", **resumed)
    assert (over.status_code, over.content) == (204, b"")


async def test_the_header_comes_before_the_parameter(gateway: httpx.AsyncClient) -> None:
    path = await completed(gateway)
    last = (await gateway.get(path)).json()["seq"]
    async with watching(gateway, f"{path}/stream", last=last - 2, afterSeq=1) as stream:
        assert seqs(await stream.rest()) == [last - 1, last]


@pytest.mark.parametrize(
    ("last_event_id", "refused"),
    [
        ("x", (422, "INVALID_REQUEST")),
        ("-1", (422, "INVALID_REQUEST")),
        ("1.5", (422, "INVALID_REQUEST")),
        ("9" * 10, (422, "INVALID_REQUEST")),
        ("9" * 9, (422, "SEQ_OUT_OF_RANGE")),
    ],
)
async def test_an_impossible_last_event_id_is_refused(
    gateway: httpx.AsyncClient, last_event_id: str, refused: tuple[int, str]
) -> None:
    path = await created(gateway)
    answer = await answer_to(gateway, f"{path}/stream", last=last_event_id)
    assert refusal(answer) == refused
    async with watching(gateway, f"{path}/stream", last="") as stream:
        assert (await stream.next()).name == "snapshot"


async def test_heartbeats_keep_a_stream_open(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.05)
    path = await created(gateway)
    async with watching(gateway, f"{path}/stream") as stream:
        assert (await stream.next()).name == "snapshot"
        for _ in range(3):
            beat = await stream.next()
            assert (beat.name, beat.id, beat.data.keys()) == ("heartbeat", None, {"ts"})


async def test_a_stream_goes_on_after_an_outage_of_the_broker(
    gateway: httpx.AsyncClient, nats_server: NatsServer
) -> None:
    path = await created(gateway)
    async with watching(gateway, f"{path}/stream") as stream:
        begin = (await stream.next()).revision
        nats_server.kill()
        await nats_server.start()

        async def is_back() -> bool:
            return (await gateway.get(path)).is_success

        await eventually(is_back, True)
        await post(gateway, f"{path}/cancel")
        rest = await stream.rest()
    assert seqs(rest) == list(range(begin + 1, rest[-1].data["seq"] + 1))
    assert rest[-1].data["status"] == "CANCELED"


async def test_a_stopping_gateway_says_goodbye(
    start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    async with anyio.create_task_group() as tasks:
        stop = anyio.Event()
        opened = anyio.Event()
        told: list[Event] = []

        async def follow(http: httpx.AsyncClient, path: str) -> None:
            async with watching(http, f"{path}/stream") as stream:
                await stream.next()
                opened.set()
                told.extend(await stream.rest())
            stop.set()

        async with start_gateway(nats_server.url) as http:
            path = await created(http)
            client = httpx.AsyncClient(base_url=http.base_url, timeout=20, trust_env=False)
            tasks.start_soon(follow, client, path)
            await opened.wait()
        with anyio.fail_after(5):
            await stop.wait()
        await client.aclose()
    assert [event.name for event in told] == ["goodbye"]
    assert told[0].retry


async def test_a_stream_ends_with_its_key(keyed: Keyed) -> None:
    http, key_admin = keyed
    held, owner = await key_admin.issue(*SCOPES), await key_admin.issue(*SCOPES)
    for key in (held, owner):
        await knows(http, key)
    http.headers.update(owner.headers)
    path = await created(http)
    async with http.stream("GET", f"{path}/stream", headers=held.headers) as response:
        stream = Stream(response)
        assert (await stream.next()).name == "snapshot"
        await key_admin.revoke(held)
        last = (await stream.rest())[-1]
    assert (last.name, last.data["reason"]) == ("goodbye", "api_key_invalid")


async def test_streams_above_the_limit_are_refused(
    start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_SSE_MAX_STREAMS="2") as http:
        path = await created(http)
        stream = f"{path}/stream"
        async with watching(http, stream) as one, watching(http, stream) as two:
            await one.next()
            await two.next()
            with anyio.fail_after(10):
                refused = await answer_to(http, stream)
            assert refusal(refused) == (429, "TOO_MANY_REQUESTS")
            assert refused.headers["Retry-After"]

        async def status() -> int:
            return (await answer_to(http, stream, last=10**8)).status_code

        # The gateway notices a moment later that the clients are gone.
        await eventually(status, 422)
        # A stream that is refused for another reason leaves no trace.
        for _ in range(3):
            assert await status() == 422

        async def opens() -> bool:
            async with watching(http, stream) as again:
                return again.response.is_success

        await eventually(opens, True)


async def test_a_client_that_does_not_read_delays_no_other(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "WRITE_TIMEOUT_SEC", 0.5)
    path = await created(gateway)
    stalled = stalled_reader(str(gateway.base_url), f"{path}/stream?afterSeq=0")
    try:
        async with watching(gateway, f"{path}/stream") as stream:
            await stream.next()
            await post(gateway, f"{path}/nodes/t/start")
            assert (await stream.next("event")).data["type"] == "NODE_STARTED"
    finally:
        stalled.close()
