"""Bodies above the limit are refused, whatever length they declare."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

MEBIBYTE = 1024 * 1024
TIMEOUT_SEC = 10
JSON = "application/json"


async def connect(gateway: httpx.AsyncClient) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", gateway.base_url.port or 0)


async def read_answer(stream: SocketStream) -> tuple[int, dict[str, Any]]:
    received = b""
    with anyio.fail_after(TIMEOUT_SEC):
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def test_a_length_of_100_megabytes_is_refused_before_anything_is_sent(
    gateway: httpx.AsyncClient,
) -> None:
    """A client that sends `Expect: 100-continue` need not send the body."""
    async with await connect(gateway) as stream:
        await stream.send(
            b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100000000\r\nExpect: 100-continue\r\n\r\n"
        )
        status, problem = await read_answer(stream)

    assert (status, problem["err_id"]) == (413, "ERR-PYOCO-0101")
    assert problem["size_bytes"] == 100_000_000


async def test_a_body_without_end_is_not_read_to_its_end(gateway: httpx.AsyncClient) -> None:
    """A chunked body declares no length, so its bytes are counted."""
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent = 0
    async with await connect(gateway) as stream:
        await stream.send(
            b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        with anyio.fail_after(TIMEOUT_SEC):
            try:
                while sent < 300 * MEBIBYTE:
                    await stream.send(chunk)
                    sent += len(chunk)
            except anyio.BrokenResourceError:
                pass

    assert sent < 150 * MEBIBYTE
    assert (await gateway.get("/health")).status_code == 200


async def test_a_chunked_body_above_the_limit_is_answered(gateway: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3 * 16):
            yield b"x" * 0x10000

    answer = await gateway.post(
        "/runs", content=chunks(), headers={"Content-Type": "application/json"}
    )

    assert (answer.status_code, answer.json()["err_id"]) == (413, "ERR-PYOCO-0101")
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("path", ["/runs", "/runs/yaml", "/runs/yaml/validate"])
async def test_a_client_that_sends_all_of_a_large_body_sees_the_answer(
    gateway: httpx.AsyncClient, path: str
) -> None:
    """Closing a connection with unread bytes resets it, and the answer is lost."""
    for _ in range(5):
        answer = await gateway.post(
            path,
            content=b"x" * (20 * MEBIBYTE),
            headers={"Content-Type": "multipart/form-data; boundary=x" if "yaml" in path else JSON},
        )

        assert answer.status_code == 413


async def test_bytes_beyond_the_declared_length_do_not_reach_a_route(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    """The excess is no part of the body, and must not become a run."""
    body = b'{"flow_name": "f"}'
    async with await connect(gateway) as stream:
        await stream.send(
            b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: 5\r\n\r\n" + body
        )
        status, problem = await read_answer(stream)

    assert (status, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    assert await store.runs() == {}


async def test_a_client_that_disconnects_during_its_body_is_not_an_error(
    gateway: httpx.AsyncClient, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with await connect(gateway) as stream:
        await stream.send(
            b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"flow_name"'
        )

    await eventually(lambda: "client disconnected" in caplog.text, True)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert await store.runs() == {}


async def test_the_limit_follows_the_limit_of_the_params(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    """JSON escapes double the bytes of Japanese text, which does not count against its limit."""
    params = {"text": "あ" * 1000}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            start_gateway(nats_server.url, PYOCO_MAX_PARAMS_BYTES="4096")
        )
        escaped = json.dumps({"flow_name": "f", "params": params})
        assert len(escaped) > 6000
        answer = await gateway.post(
            "/runs", content=escaped, headers={"Content-Type": "application/json"}
        )

    assert answer.status_code == 200
