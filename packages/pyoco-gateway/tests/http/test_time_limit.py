"""Time limits of request bodies and responses."""

import time
from typing import Any

import anyio
import httpx
from starlette.types import Message, Receive, Scope, Send

from pyoco_gateway.http.time_limit import TimeLimit
from pyoco_testkit.nats_server import NatsServer
from raw_http import answer_in, connection, rest_of

POST = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"flow_name": "hello"}'
SOON = "0.5"
SLOW_CALLERS = 50


async def test_a_slow_body_is_refused_after_the_timeout(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    """With a declared length and in chunks; other callers are served meanwhile."""
    async with start_gateway(nats_server.url, PYOCO_HTTP_BODY_TIMEOUT_SEC=SOON) as gateway:
        for head, drop in (
            (POST + b"Content-Length: 1000\r\n\r\n", b"{"),
            (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
        ):
            received: list[bytes] = []
            async with anyio.create_task_group() as tasks:
                for _ in range(SLOW_CALLERS):
                    tasks.start_soon(drip, gateway, head, drop, received)
                await anyio.sleep(0.2)
                answer = await gateway.post("/runs", json={"flow_name": "hello"})
                assert answer.status_code == 200
            answers = [answer_in(each) for each in received]
            assert [(each.status, each.err_id) for each in answers] == [
                (408, "ERR-PYOCO-0138")
            ] * SLOW_CALLERS
            assert all(each.headers["connection"] == "close" for each in answers)

    assert len(await store.runs()) == 2


async def test_a_body_in_many_packets_is_accepted(gateway: httpx.AsyncClient) -> None:
    async with connection(gateway) as stream:
        await stream.send(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        for byte in BODY:
            await stream.send(bytes([byte]))
            await anyio.sleep(0.01)
        answer = answer_in(await rest_of(stream))

    assert answer.status == 200


async def test_a_request_without_a_response_is_cancelled_after_the_timeout(
    start_gateway: Any, broker_link: Any
) -> None:
    link, url = broker_link
    async with start_gateway(url, PYOCO_HTTP_REQUEST_TIMEOUT_SEC=SOON) as gateway:
        link.swallow = ("$JS.API.DIRECT.GET.KV_pyoco_runs", "$JS.API.STREAM.MSG.GET.KV_pyoco_runs")
        began = time.monotonic()
        answer = await gateway.get("/runs/00000000-0000-4000-8000-000000000000")
        took_sec = time.monotonic() - began
        link.swallow = ()
        again = await gateway.get("/runs/00000000-0000-4000-8000-000000000000")

    assert link.lost
    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0137")
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert took_sec < 2
    assert again.status_code == 404


async def test_a_stream_continues_after_the_request_timeout(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_HTTP_REQUEST_TIMEOUT_SEC=SOON) as gateway:
        run_id = (await gateway.post("/runs", json={"flow_name": "f"})).json()["run_id"]
        began = time.monotonic()
        async with gateway.stream("GET", f"/runs/{run_id}/watch?timeout_sec=2") as stream:
            lines = [line async for line in stream.aiter_lines()]

    assert time.monotonic() - began > 1.5
    assert any("PENDING" in line for line in lines)


async def test_a_cancellation_from_outside_is_not_answered_as_a_timeout() -> None:
    """A shutdown of the server cancels requests too."""
    limit = TimeLimit(forever, request_sec=60, body_sec=60)

    with anyio.move_on_after(0.1) as scope:
        await limit({"type": "http"}, unused_receive, unused_send)

    assert scope.cancelled_caught


async def test_a_started_response_has_no_time_limit() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await anyio.sleep(0.6)
        await send({"type": "http.response.body", "body": b"late"})

    await TimeLimit(slow, request_sec=0.01, body_sec=0.01)({"type": "http"}, unused_receive, send)

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


async def drip(gateway: httpx.AsyncClient, head: bytes, drop: bytes, received: list[bytes]) -> None:
    """Send a body slowly until the server answers; append the answer to `received`."""
    async with connection(gateway) as stream, anyio.create_task_group() as tasks:

        async def send() -> None:
            try:
                await stream.send(head)
                while True:
                    await stream.send(drop)
                    await anyio.sleep(0.1)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

        tasks.start_soon(send)
        received.append(await rest_of(stream))
        tasks.cancel_scope.cancel()


async def forever(scope: Scope, receive: Receive, send: Send) -> None:
    await anyio.sleep_forever()


async def unused_receive() -> Message:
    raise AssertionError("receive was called")


async def unused_send(message: Message) -> None:
    raise AssertionError("send was called")
