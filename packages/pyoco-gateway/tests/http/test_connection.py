"""Limits of a connection: header size, deadlines, pipelined requests."""

from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from pyoco_testkit.nats_server import NatsServer
from raw_http import answer_in, answers_in, connection, raw, rest_of

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
CLOSE = b"Connection: close\r\n\r\n"
CHUNKED = (
    b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
MANY = 100_000
SOON = "0.5"
KIBIBYTE = 1024


async def test_a_hundred_thousand_headers_are_refused(gateway: httpx.AsyncClient) -> None:
    answer = await raw(gateway, GET, b"".join(b"x-%d: y\r\n" % n for n in range(MANY)), CLOSE)

    assert (answer.status, answer.err_id) == (431, "ERR-PYOCO-0139")
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_large_head_is_refused_whole_or_in_pieces(
    gateway: httpx.AsyncClient,
) -> None:
    """Complete and incomplete, in one packet and in many."""
    for head in (
        GET + b"x: y\r\n" * 101 + CLOSE,
        GET + b"x: " + b"y" * 33_000 + b"\r\n" + CLOSE,
        b"GET /" + b"y" * 33_000 + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE,
        GET + b"x: " + b"y" * 300 * KIBIBYTE,
        b"GET /" + b"y" * 300 * KIBIBYTE,
    ):
        for size in (len(head), 8 * KIBIBYTE):
            parts = [head[at : at + size] for at in range(0, len(head), size)]
            answer = await raw(gateway, *parts)
            assert (answer.status, answer.err_id) == (431, "ERR-PYOCO-0139")


async def test_the_limits_come_from_the_settings(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    own = {"PYOCO_HTTP_MAX_HEADERS": "10", "PYOCO_HTTP_MAX_HEADER_BYTES": "2048"}
    async with start_gateway(nats_server.url, **own) as gateway:
        just = await raw(gateway, GET + b"x: y\r\n" * 8 + CLOSE)
        many = await raw(gateway, GET + b"x: y\r\n" * 9 + CLOSE)
        long = await raw(gateway, GET + b"x: " + b"y" * 2048 + b"\r\n" + CLOSE)

    assert [just.status, many.status, long.status] == [200, 431, 431]


async def test_a_large_body_does_not_count_as_a_head(gateway: httpx.AsyncClient) -> None:
    """Not even if the next request begins in the same packet."""
    body = b'{"flow_name": "f", "params": {"text": "' + b"x" * 100 * KIBIBYTE + b'"}}'
    post = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    first = post + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with connection(gateway) as stream:
        await stream.send(first + GET[:20])
        received = await stream.receive()
        await stream.send(GET[20:] + CLOSE)
        received += await rest_of(stream)

    assert received.count(b"HTTP/1.1 200 OK") == 2


async def test_a_head_that_never_ends_is_refused_after_the_timeout(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_HTTP_HEADER_TIMEOUT_SEC=SOON) as gateway:
        async with (
            connection(gateway) as silent,
            connection(gateway) as slow,
            connection(gateway) as blank,
        ):
            answers = await dripped(slow, b"GET /health HTTP/1.1\r\nHost: localhost\r\nx: ")
            assert await dripped(blank, b"\r\n", drop=b"\r\n") == b""
            assert await rest_of(silent) == b""
        assert (await gateway.get("/health")).status_code == 200

    answer = answer_in(answers)
    assert (answer.status, answer.err_id) == (408, "ERR-PYOCO-0138")


async def test_the_rest_of_a_body_has_a_timeout_after_the_response(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with (
        start_gateway(nats_server.url, PYOCO_HTTP_BODY_TIMEOUT_SEC=SOON) as gateway,
        connection(gateway) as stream,
    ):
        rest = await dripped(stream, GET + b"Content-Length: 99999\r\n\r\n")

    assert answer_in(rest).status == 200


async def test_endless_chunk_extensions_and_trailers_close_the_connection(
    gateway: httpx.AsyncClient,
) -> None:
    for beginning in (b"1;", b"0\r\nx: "):
        async with connection(gateway) as stream:
            await stream.send(CHUNKED + beginning)
            with pytest.raises(anyio.BrokenResourceError):
                await flood(stream)


async def test_a_trailer_does_not_become_a_header(gateway: httpx.AsyncClient) -> None:
    """Trailers arrive after the headers were checked."""
    body = b'{"flow_name": "f"}'
    answer = await raw(
        gateway,
        # In one packet, so that the trailer is parsed before the request is processed.
        CHUNKED.replace(b"\r\n\r\n", b"\r\n" + CLOSE)
        + b"%x\r\n%b\r\n0\r\n" % (len(body), body)
        + b"X-Request-ID: of-a-trailer\r\nHost: evil.example\r\n\r\n",
    )

    assert answer.status == 200
    assert answer.headers["x-request-id"] != "of-a-trailer"


async def test_chunks_of_one_byte_are_accepted(gateway: httpx.AsyncClient) -> None:
    body = b'{"flow_name": "f", "params": {"text": "' + b"x" * 20 * KIBIBYTE + b'"}}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)

    answer = await raw(
        gateway, CHUNKED.replace(b"\r\n\r\n", b"\r\n" + CLOSE), chunks + b"0\r\n\r\n"
    )

    assert answer.status == 200


async def test_pipelined_requests_are_answered_in_order(
    gateway: httpx.AsyncClient,
) -> None:
    async with connection(gateway) as stream:
        await stream.send((GET + b"\r\n") * 15 + GET + CLOSE)
        received = await rest_of(stream)

    assert received.count(b"HTTP/1.1 200 OK") == 16


async def test_too_many_pipelined_requests_close_the_connection(gateway: httpx.AsyncClient) -> None:
    """Each request takes a hundred times as much memory as its bytes."""
    async with connection(gateway) as stream:
        # The responses are not read, so the pipelined requests cannot be processed.
        await stream.send((GET + b"\r\n") * 4000)
        assert await rest_of(stream) == b""


async def test_other_http_versions_are_refused(gateway: httpx.AsyncClient) -> None:
    for version in (b"0.9", b"1.2", b"2.0", b"2", b"2.1", b"3.0", b"9.9", b"10.1"):
        head = b"GET /health HTTP/" + version + b"\r\nHost: localhost\r\n\r\n"
        for parts in ([head + head], [head[:15], head[15:]]):
            async with connection(gateway) as stream:
                for part in parts:
                    await stream.send(part)
                (answer,) = answers_in(await rest_of(stream))
            assert (answer.status, answer.err_id) == (505, "ERR-PYOCO-0144"), version
            assert answer.headers["connection"] == "close"


async def test_a_request_without_a_version_is_refused(gateway: httpx.AsyncClient) -> None:
    """HTTP/0.9, and the preface of HTTP/2 (`curl --http2-prior-knowledge`)."""
    for head in (b"GET /health\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        answer = await raw(gateway, head)
        assert (answer.status, answer.err_id) == (505, "ERR-PYOCO-0144"), head


async def test_http_1_0_is_answered(gateway: httpx.AsyncClient) -> None:
    answer = await raw(gateway, b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")

    assert answer.status == 200


async def test_a_target_that_contradicts_the_host_header_is_refused(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    """A proxy may route by the one, and the gateway would check the other."""
    async with start_gateway(nats_server.url) as gateway:
        for target, status in (
            (b"http://localhost/health", 200),
            (b"HTTP://LOCALHOST/health", 200),
            (b"http://evil.example/health", 400),
            (b"http://localhost@evil.example/health", 400),
            (b"http://localhost:81/health", 400),
            (b"http://evil.example?/health", 400),
        ):
            answer = await raw(
                gateway, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + CLOSE
            )
            assert answer.status == status, target
            assert status == 200 or answer.err_id == "ERR-PYOCO-0135", target


async def test_a_target_that_is_not_a_path_is_refused(gateway: httpx.AsyncClient) -> None:
    for target in (b"localhost:80", b"http://localhost", b"/\xff", b"x"):
        head = b"OPTIONS " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for before in (b"", GET + b"\r\n"):
            async with connection(gateway) as stream:
                await stream.send(before + head + GET + b"\r\n")
                answers = answers_in(await rest_of(stream))
            assert [answer.status for answer in answers] == [200, 400][not before :], target
            assert answers[-1].err_id == "ERR-PYOCO-0145", target


async def test_a_refusal_follows_the_answers_to_earlier_requests(
    gateway: httpx.AsyncClient,
) -> None:
    """Sent at once, it would be taken for the answer to the first request."""
    for last, status in (
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\n\r\n", 505),
        (GET + b"x: " + b"y" * 33_000 + b"\r\n\r\n", 431),
    ):
        async with connection(gateway) as stream:
            await stream.send((GET + b"\r\n") * 3 + last + GET + b"\r\n")
            answers = answers_in(await rest_of(stream))
        assert [answer.status for answer in answers] == [200, 200, 200, status]


async def test_an_invalid_chunk_is_answered_once(gateway: httpx.AsyncClient) -> None:
    """The request is refused, or closed if it was answered before."""
    answer = await raw(gateway, CHUNKED + b"no length\r\n")
    assert (answer.status, answer.err_id) == (400, "ERR-PYOCO-0145")

    async with connection(gateway) as stream:
        await stream.send(CHUNKED.replace(b"application/json", b"text/plain"))
        received = await stream.receive()
        await stream.send(b"no length\r\n")
        (answer,) = answers_in(received + await rest_of(stream))
    assert answer.status == 415


async def flood(stream: SocketStream) -> None:
    for _ in range(256):
        await stream.send(b"e" * 64 * KIBIBYTE)


async def dripped(stream: SocketStream, head: bytes, *, drop: bytes = b"x") -> bytes:
    """Send a head, then `drop` repeatedly until the server answers; return the answer."""
    received = b""

    async def send() -> None:
        try:
            await stream.send(head)
            while True:
                await anyio.sleep(0.05)
                await stream.send(drop)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        received = await rest_of(stream)
        tasks.cancel_scope.cancel()
    return received
