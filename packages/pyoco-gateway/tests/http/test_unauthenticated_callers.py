"""Unauthenticated callers exhaust neither the log nor the connections."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from key_admin import Keyed
from pyoco_gateway.access import middleware
from pyoco_gateway.http import connection as connections
from pyoco_gateway.http import request_checks
from pyoco_gateway.http.rate_limiter import UNAUTHENTICATED_BURST
from pyoco_testkit.eventually import eventually
from raw_http import connection

GET = b"GET /runs HTTP/1.1\r\nHost: localhost\r\n"
ROOM = 20
ASKED = 300
# Two limiters each allow a burst of sixty lines, then one per second.
MANY_LINES = 150


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(GET + b"Content-Encoding: gzip\r\n\r\n", id="refused by its headers"),
        pytest.param(GET + b"x: y\r\n" * 101 + b"\r\n", id="a large head"),
        pytest.param(b"FOO /runs HTTP/1.1\r\n\r\n", id="not HTTP"),
        pytest.param(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", id="another protocol"),
        pytest.param(b"GET /health?verbose=2 HTTP/1.1\r\nHost: x\r\n\r\n", id="public route"),
    ],
)
async def test_refused_requests_write_a_limited_number_of_log_lines(
    request_bytes: bytes, keyed: Keyed, caplog: pytest.LogCaptureFixture
) -> None:
    http, _ = keyed
    caplog.set_level(logging.INFO)
    for _ in range(ASKED):
        async with connection(http) as stream:
            await stream.send(request_bytes)
            assert (await stream.receive()).startswith(b"HTTP/1.1 4")

    # The commands turn off Uvicorn's access log.
    lines = [each for each in caplog.records if each.name != "uvicorn.access"]
    assert len(lines) < MANY_LINES


@pytest.fixture
def slow_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the limiters of the next gateway pass only one request a second after the burst."""
    for module in (middleware, request_checks):
        monkeypatch.setattr(module, "UNAUTHENTICATED_PER_SEC", 1.0)


@pytest.mark.usefixtures("slow_refill")
@pytest.mark.parametrize(
    ("path", "headers"),
    [("/runs", {}), ("/runs", {"Content-Encoding": "gzip"}), ("/health", {})],
    ids=["no key", "refused by its headers", "public route"],
)
async def test_frequent_requests_without_a_key_are_delayed_and_those_with_a_key_are_not(
    path: str, headers: dict[str, str], keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue()
    await eventually(lambda: _status(http, held.headers), httpx.codes.OK)
    answered, all_answered = 0, anyio.Event()

    async def ask() -> None:
        nonlocal answered
        await http.get(path, headers=headers)
        answered += 1
        if answered == ASKED:
            all_answered.set()

    # Long enough to see which requests are delayed.
    for module in (middleware, request_checks):
        monkeypatch.setattr(module, "UNAUTHENTICATED_DELAY_SEC", 60.0)
    async with anyio.create_task_group() as tasks:
        # The limiter lets some more pass every second.
        for _ in range(ASKED):
            tasks.start_soon(ask)
        # The first requests with the key were refused, too, until the gateway had read it.
        await eventually(lambda: answered >= UNAUTHENTICATED_BURST // 2, True)
        # More than enough time for all of them without a delay.
        with anyio.move_on_after(3):
            await all_answered.wait()
        async with httpx.AsyncClient(base_url=http.base_url, trust_env=False) as holder:
            assert await _status(holder, held.headers) == httpx.codes.OK
        tasks.cancel_scope.cancel()
    assert answered < ASKED


async def test_idle_connections_do_not_lock_out_other_callers(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: ROOM)
    http, key_admin = keyed
    held = await key_admin.issue()
    await eventually(lambda: _status(http, held.headers), httpx.codes.OK)
    async with (
        http.stream("GET", "/runs/watch", headers=held.headers) as watch,
        AsyncExitStack() as idle_connections,
    ):
        events = watch.aiter_lines()
        assert await anext(events) == "event: ready"
        idle = [
            await idle_connections.enter_async_context(connection(http)) for _ in range(3 * ROOM)
        ]
        for each in idle[::2]:
            with suppress(anyio.BrokenResourceError):
                await each.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with httpx.AsyncClient(base_url=http.base_url, trust_env=False) as newcomer:
            assert await _status(newcomer, held.headers) == httpx.codes.OK
        async with anyio.create_task_group() as tasks:
            closed: list[SocketStream] = []
            for each in idle:
                tasks.start_soon(_append_when_closed, each, closed)
            await eventually(lambda: len(closed) >= ROOM, True)
            tasks.cancel_scope.cancel()
        # The open stream goes on.
        await http.post("/runs", json={"flow_name": "f"}, headers=held.headers)
        await _until(events, "event: snapshot")
    warnings = [each for each in caplog.records if "too many connections" in each.getMessage()]
    assert len(warnings) == 1


async def _status(http: httpx.AsyncClient, headers: dict[str, str]) -> int:
    return (await http.get("/runs", headers=headers)).status_code


async def _until(lines: AsyncIterator[str], wanted: str) -> None:
    with anyio.fail_after(10):
        while await anext(lines) != wanted:
            pass


async def _append_when_closed(stream: SocketStream, closed: list[SocketStream]) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()
    closed.append(stream)
