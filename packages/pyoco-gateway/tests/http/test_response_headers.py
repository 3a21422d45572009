"""Security headers of every response."""

import re
from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.http.response_headers import RESPONSE_HEADERS
from raw_http import Answer, answer_in, connection, raw

NAMES = (
    "x-content-type-options",
    "referrer-policy",
    "content-security-policy",
    "x-frame-options",
    "cross-origin-resource-policy",
    "cache-control",
)
JSON = {"Content-Type": "application/json"}


def is_safe(answer: httpx.Response | Answer) -> bool:
    """Return whether each header occurs once and the policy allows no inline scripts."""
    policy = answer.headers["content-security-policy"]
    found = {name: answer.headers.get_list(name) for name in NAMES}
    return (
        "server" not in answer.headers
        and all(len(values) == 1 for values in found.values())
        and found["x-content-type-options"] == ["nosniff"]
        and found["referrer-policy"] == ["no-referrer"]
        and found["x-frame-options"] == ["DENY"]
        and found["cache-control"] == ["no-store"]
        and "default-src 'self'" in policy
        and "frame-ancestors 'none'" in policy
        and not re.search(r"unsafe|\*|https?:|data:|blob:", policy)
    )


def test_no_header_is_listed_twice() -> None:
    assert tuple(name for name, _ in RESPONSE_HEADERS) == NAMES


async def test_every_response_has_the_security_headers(gateway: httpx.AsyncClient) -> None:
    for method, path, status in (
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("GET", "/health", 200),
        ("HEAD", "/health", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/runs", 200),
        ("GET", "/runs?limit=x", 422),
        ("GET", "/nothing", 404),
        ("GET", "/runs/00000000-0000-4000-8000-000000000000", 404),
        ("PUT", "/runs", 405),
        ("OPTIONS", "/runs", 405),
        ("POST", "/runs", 415),
        ("DELETE", "/dlq/1", 404),
    ):
        answer = await gateway.request(method, path)
        assert answer.status_code == status
        assert is_safe(answer), path


async def test_a_run_a_stream_and_a_refused_body_have_the_security_headers(
    gateway: httpx.AsyncClient,
) -> None:
    accepted = await gateway.post("/runs", json={"flow_name": "f"})
    path = f"/runs/{accepted.json()['run_id']}"
    async with gateway.stream("GET", f"{path}/watch?timeout_sec=1") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert is_safe(stream)
    large = await gateway.post("/runs", content=b"x" * 2_000_000, headers=JSON)

    assert large.status_code == 413
    for answer in (accepted, await gateway.get(path), large):
        assert is_safe(answer)


async def test_the_response_to_a_crash_has_the_security_headers(
    gateway: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug, with a secret")

    monkeypatch.setattr("pyoco_gateway.runs.read.ReadRun.__call__", crash)

    answer = await gateway.get("/runs/00000000-0000-4000-8000-000000000000")

    assert (answer.status_code, answer.json()["err_id"]) == (500, "ERR-PYOCO-0106")
    assert answer.json()["error_id"] == answer.headers["x-request-id"]
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert is_safe(answer)


async def test_responses_without_a_broker_have_the_security_headers(start_gateway: Any) -> None:
    async with start_gateway("nats://127.0.0.1:1", wait=False) as gateway:
        answer = await gateway.post("/runs", json={"flow_name": "f"})

    assert answer.status_code == 503
    assert is_safe(answer)


async def test_the_response_to_invalid_http_has_the_security_headers(
    gateway: httpx.AsyncClient,
) -> None:
    """The connection answers it without the application."""
    post = b"POST /runs HTTP/1.1\r\nHost: localhost\r\n"
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        # Two lengths: a proxy may use the other one.
        post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        post + b"Content-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        answer = await raw(gateway, garbage)
        assert (answer.status, answer.err_id) == (400, "ERR-PYOCO-0145"), garbage
        assert is_safe(answer)


async def test_an_upgrade_request_is_answered_in_http_1(gateway: httpx.AsyncClient) -> None:
    async with connection(gateway) as stream:
        await stream.send(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        with anyio.fail_after(5):
            answer = answer_in(await stream.receive())

    assert answer.status == 200
    assert is_safe(answer)
