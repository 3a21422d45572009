"""Refusals of a connection: their body follows the path, as far as it is known."""

import json
from typing import Any

import httpx
import pytest

from pyoco_gateway.http.connection_refusals import refusal_of
from pyoco_protocol.problems import Problem, SlowRequestError
from pyoco_testkit.nats_server import NatsServer
from raw_http import Answer, answer_in, answers_in, connection, raw, rest_of

HEAD = b"GET /executions/x/y/z HTTP/1.1\r\nHost: localhost\r\nAccept-Language: ja\r\n"
IDS = b"X-Request-ID: r-1\r\nX-Correlation-Id: order 7\r\n"
CHUNKED = (
    b"POST /executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"X-Request-ID: r-1\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def error_in(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer.body)["error"]
    assert error["details"]["requestId"] == answer.headers["X-Request-ID"]
    return error


async def test_too_many_headers_answer_431_with_the_ids_and_the_language_of_the_request(
    gateway: httpx.AsyncClient,
) -> None:
    answer = await raw(gateway, HEAD + IDS + b"x: y\r\n" * 101 + b"\r\n")

    error = error_in(answer)
    assert (answer.status, error["code"]) == (431, "HEADERS_TOO_LARGE")
    assert error["message"] == "ヘッダーが大きすぎます"
    assert answer.headers["X-Request-ID"] == "r-1"
    assert answer.headers["X-Correlation-Id"] == "order 7"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"GET /waits HTTP/2.5\r\nHost: x\r\n\r\n", 505, "HTTP_VERSION_NOT_SUPPORTED"),
        (b"GET /waits HTTP/1.1\r\nbad header\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET http://a/waits HTTP/1.1\r\nHost: b\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /%67raphs/" + b"y" * 300_000, 431, "HEADERS_TOO_LARGE"),
    ],
)
async def test_a_request_that_cannot_be_read_is_answered_by_its_path(
    gateway: httpx.AsyncClient, request_bytes: bytes, status: int, code: str
) -> None:
    answer = await raw(gateway, request_bytes)

    assert (answer.status, error_in(answer)["code"]) == (status, code)


async def test_an_invalid_body_has_the_ids_of_its_request(gateway: httpx.AsyncClient) -> None:
    answer = await raw(gateway, CHUNKED + b"not a length\r\n")

    assert (answer.status, error_in(answer)["code"]) == (400, "BAD_REQUEST")
    assert answer.headers["X-Request-ID"] == "r-1"


async def test_a_head_that_never_ends_answers_408(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url, PYOCO_HTTP_HEADER_TIMEOUT_SEC="0.3") as gateway:
        answer = await raw(gateway, HEAD)

    assert (answer.status, error_in(answer)["code"]) == (408, "REQUEST_TIMEOUT")


async def test_bytes_after_a_request_are_not_answered_by_its_path(
    gateway: httpx.AsyncClient,
) -> None:
    async with connection(gateway) as stream:
        await stream.send(HEAD + b"\r\n\x00\x01\r\n\r\n")
        first, second = answers_in(await rest_of(stream))

    assert json.loads(first.body)["error"]["code"] == "NOT_FOUND"
    assert second.err_id == "ERR-PYOCO-0145"


@pytest.mark.parametrize("target", [b"/runs", b"/executionsX", b"", b"*", b"/x?/executions"])
def test_other_paths_keep_their_answer(target: bytes) -> None:
    error = SlowRequestError("head")
    body = Problem.of(error).model_dump_json().encode()

    refusal = refusal_of(
        error,
        target=target,
        headers=[(b"x-request-id", b"r-1"), (b"accept-language", b"ja")],
        default_headers=[(b"x-frame-options", b"DENY")],
    )

    assert refusal.log_fields == {}
    assert refusal.data == (
        b"HTTP/1.1 408 Request Timeout\r\nx-frame-options: DENY\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
        % (len(body), body)
    )
    assert answer_in(refusal.data).err_id == "ERR-PYOCO-0138"
