"""Requests that ask for another protocol are answered as plain requests with their whole body."""

import asyncio
import json
import logging
import socket
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from pyoco_gateway.http.connection import ConnectionLimits, LimitedConfig, LimitedConnection
from pyoco_protocol.settings import HttpServerSettings
from raw_http import answers_in, connection, raw, rest_of

H2C = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
)
WEBSOCKET = (
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"
    b"Sec-WebSocket-Version: 13\r\n"
)
POST = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SUBMISSION = b'{"flow_name": "hello"}'
LENGTH = b"Content-Length: %d\r\n" % len(SUBMISSION)
# A body that is also a request.
SMUGGLED = b"DELETE /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSE = b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def test_a_submission_that_asks_for_http_2_is_accepted(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with connection(gateway) as stream:
        await stream.send(POST + H2C + LENGTH + b"\r\n" + SUBMISSION + last)
        answers = answers_in(await rest_of(stream))

    assert [answer.status for answer in answers] == [200, 200]
    assert len(await store.runs()) == 1


async def test_a_body_after_the_answer_to_its_head_is_accepted(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """The gateway has read the head when it answers 100, so the body is in a second packet."""
    async with connection(gateway) as stream:
        await stream.send(POST + H2C + LENGTH + b"Expect: 100-continue\r\n\r\n")
        assert await stream.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send(SUBMISSION)
        assert (await stream.receive()).startswith(b"HTTP/1.1 200 OK\r\n")

    assert len(await store.runs()) == 1


async def test_an_upgrade_request_has_the_limits_of_a_plain_request(
    gateway: httpx.AsyncClient,
) -> None:
    long = b"X: " + b"y" * 33_000 + b"\r\n"
    large = b"Connection: close\r\nContent-Length: 99999999\r\n"
    for head, status in ((H2C + long, 431), (H2C + b"X: y\r\n" * 100, 431), (H2C + large, 413)):
        assert (await raw(gateway, POST + head + b"\r\n")).status == status


async def test_too_many_pipelined_upgrade_requests_close_the_connection(
    gateway: httpx.AsyncClient,
) -> None:
    async with connection(gateway) as stream:
        await stream.send((b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + H2C + b"\r\n") * 1000)
        assert await rest_of(stream) == b""


async def test_a_tunnel_is_refused_and_the_bytes_after_it_are_not_read(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    submission = POST + LENGTH + b"\r\n" + SUBMISSION
    for target in (b"localhost:80", b"/runs"):
        for head in (b"", LENGTH, H2C):
            connect = b"CONNECT " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n"
            async with connection(gateway) as stream:
                await stream.send(connect + submission)
                answers = answers_in(await rest_of(stream))
            assert [(answer.status, answer.err_id) for answer in answers] == [
                (400, "ERR-PYOCO-0145")
            ]

    assert await store.runs() == {}


class Exchange:
    """One request and the answer of `echo`."""

    def __init__(self, method: bytes, framing: str, upgrade: bytes, body: bytes, number: int):
        path = b"/%d" % number
        head = method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + upgrade
        if framing == "length":
            self.sent = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        elif framing == "chunks":
            chunks = b"".join(
                b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:]) if part
            )
            self.sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        else:
            body = b""
            self.sent = head + b"\r\n"
        self.answer = [method.decode(), path.decode(), body.decode()]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the method, the path and the body of the request."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    answer = json.dumps([scope["method"], scope["path"], body.decode()]).encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


CONFIG = LimitedConfig(
    echo, http=LimitedConnection, ws="none", lifespan="off", log_config=None, access_log=False
)
CONFIG.limits = ConnectionLimits.of(HttpServerSettings())

exchanges = st.builds(
    Exchange,
    st.sampled_from([b"POST", b"GET", b"PUT", b"DELETE"]),
    st.sampled_from(["length", "chunks", "none"]),
    st.sampled_from([H2C, WEBSOCKET, b""]),
    st.sampled_from([SMUGGLED, SMUGGLED + CLOSE, b"", b"{}", b"\r\n\r\n"]),
    st.integers(0, 9),
)


async def answers_of_echo(parts: Sequence[bytes]) -> list[Any]:
    """Give a connection the bytes in exactly these packets; return its answers."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    state = ServerState()
    transport, protocol = await loop.create_connection(
        lambda: LimitedConnection(CONFIG, state, {}, loop), sock=near
    )
    reader, writer = await asyncio.open_connection(sock=far)
    try:
        for part in parts:
            if transport.is_closing():
                break
            protocol.data_received(part)
            # Responses are sent between some of the packets.
            await asyncio.sleep(0)
        received = await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
        await writer.wait_closed()
    return [json.loads(answer.body) for answer in answers_in(received)]


@settings(max_examples=300, deadline=None)
@given(st.lists(exchanges, max_size=4), st.data())
def test_packets_do_not_change_the_answers(sent: list[Exchange], data: st.DataObject) -> None:
    """No body is parsed as a request, wherever the packets begin."""
    last = ["GET", "/last", ""]
    stream = b"".join(each.sent for each in sent) + CLOSE
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=40)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    answers = asyncio.run(answers_of_echo(parts))

    assert answers == [*(each.answer for each in sent), last]


def test_single_bytes_give_the_same_answers() -> None:
    for framing in ("length", "chunks"):
        for upgrade in (H2C, WEBSOCKET):
            first = Exchange(b"POST", framing, upgrade, SMUGGLED, 1)
            stream = first.sent + first.sent + CLOSE
            parts = [stream[at : at + 1] for at in range(len(stream))]
            answers = asyncio.run(answers_of_echo(parts))
            assert answers == [first.answer, first.answer, ["GET", "/last", ""]]


def test_an_unclear_length_is_judged_as_without_the_upgrade() -> None:
    refused = 0
    for framing in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length:\r\n 5\r\n",
        b"Transfer-Encoding: x\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: chunked, x\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding\t: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n",
    ):
        judged = []
        for upgrade in (b"", H2C, WEBSOCKET):
            head = b"POST /1 HTTP/1.1\r\nHost: localhost\r\n" + upgrade + framing + b"\r\n"
            for parts in (
                [head + b"0\r\n\r\n" + SMUGGLED + CLOSE],
                [head, b"0\r\n\r\n", SMUGGLED, CLOSE],
            ):
                judged.append(asyncio.run(answers_of_echo(parts)))
        assert all(each == judged[0] for each in judged), framing
        refused += isinstance(judged[0][0], dict)

    assert refused >= 14


def test_an_http_1_0_request_that_asks_for_an_upgrade_is_answered_and_closed() -> None:
    head = b"POST /1 HTTP/1.0\r\n" + H2C + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    for parts in ([head + SMUGGLED + CLOSE], [head, SMUGGLED, CLOSE]):
        answers = asyncio.run(answers_of_echo(parts))
        assert answers == [["POST", "/1", SMUGGLED.decode()]]


def test_an_upgrade_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(answers_of_echo([Exchange(b"POST", "length", H2C, b"{}", 1).sent + CLOSE]))

    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
