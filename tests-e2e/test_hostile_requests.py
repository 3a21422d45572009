"""Hostile requests are refused quickly and do not delay other clients."""

import gzip
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final

import anyio
import httpx
import psutil
import pytest
from anyio.abc import SocketStream

from pyoco_testkit.health_poller import polled_health
from pyoco_testkit.stack import Stack

# Promised limits.
ANSWER_SEC: Final = 1.0
HEALTH_SEC: Final = 0.25
GROWTH_BYTES: Final = 64 * 1024 * 1024

DEEP: Final = 100_000
JSON: Final = {"Content-Type": "application/json"}
MEBIBYTE: Final = 1024 * 1024
SLOW_CALLERS: Final = 200
HEAD: Final = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def submission(value: str) -> bytes:
    return f'{{"flow_name": "f", "params": {{"n": {value}}}}}'.encode()


BODIES: Final[Mapping[str, bytes]] = {
    "brackets": b"[" * DEEP,
    "nested lists": submission("[" * DEEP + "]" * DEEP),
    "nested objects": submission('{"a":' * DEEP + "1" + "}" * DEEP),
    "a million keys": submission(json.dumps(dict.fromkeys(map(str, range(1_000_000)), 0))),
    "as many keys as fit": submission(json.dumps(dict.fromkeys(map(str, range(38_000)), 0))),
    "as many objects as fit": submission("[" + "{}," * 140_000 + '{"a": 1, "a": 2}]'),
    "as many strings as fit": submission('{"a": 1, "a": [' + '"",' * 140_000 + "1]}"),
    "4,301 digits": submission("9" * 4301),
    "digits": submission("9" * 400_000),
    "not a number": submission("NaN"),
    "half a character": submission(r'"\ud800"'),
    "a key that comes twice": submission('{"a": 1, "a": 2}'),
    "an endless string": submission('"' + "x" * 400_000),
    "backslashes": submission('"' + "\\" * 400_001),
}
HEADS: Final[Mapping[str, bytes]] = {
    "many headers": HEAD + b"".join(b"x-%d: y\r\n" % n for n in range(DEEP)),
    "a long header": HEAD + b"x: " + b"y" * 8 * MEBIBYTE,
}
# Built before the measurement starts.
BOMB: Final = gzip.compress(b" " * 50 * MEBIBYTE)
ROUNDS: Final = 3


@pytest.mark.timeout(120)
async def test_a_hostile_request_is_refused_within_a_second_and_delays_no_other_client(
    stack: Stack,
) -> None:
    process = psutil.Process(stack.gateway.pid)
    slow: dict[str, float] = {}

    def note(name: str, began: float, status: int) -> None:
        assert 400 <= status < 500, f"{name}: {status}"
        if (took := time.perf_counter() - began) > ANSWER_SEC:
            slow[name] = took

    async with httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) as http:
        await http.post("/runs", content=submission("1"), headers=JSON)
        before = process.memory_info().rss
        with polled_health(stack.port) as poller:
            async with anyio.create_task_group() as tasks:
                for number in range(SLOW_CALLERS):
                    tasks.start_soon(send_slowly, stack.port, number)
                for _ in range(ROUNDS):
                    for name, body in BODIES.items():
                        began = time.perf_counter()
                        answer = await http.post("/runs", content=body, headers=JSON)
                        note(name, began, answer.status_code)
                    began = time.perf_counter()
                    answer = await http.post("/runs", content=large_chunks(), headers=JSON)
                    note("chunks", began, answer.status_code)
                    began = time.perf_counter()
                    bomb = {**JSON, "Content-Encoding": "gzip"}
                    answer = await http.post("/runs", content=BOMB, headers=bomb)
                    note("a bomb", began, answer.status_code)
                    for name, head in HEADS.items():
                        began = time.perf_counter()
                        note(name, began, await status_of_head(stack.port, head))
                tasks.cancel_scope.cancel()
        grown = process.memory_info().rss - before

    assert slow == {}
    assert len(poller.response_times) > 10
    assert poller.p99() < HEALTH_SEC
    assert grown < GROWTH_BYTES
    assert await stack.message_count("PYOCO_WORK") == 1


async def large_chunks() -> AsyncIterator[bytes]:
    for _ in range(32):
        yield b"x" * MEBIBYTE


async def send_slowly(port: int, number: int) -> None:
    """Keep a connection open by sending one byte of a body or a head per second."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(HEAD + (b"Content-Length: 1000\r\n\r\n" if number % 2 else b"x: "))
        while True:
            await anyio.sleep(1)
            await stream.send(b"x")


async def status_of_head(port: int, head: bytes) -> int:
    """Send a request head until the server closes; return the status of the answer."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        with suppress(anyio.BrokenResourceError):
            await stream.send(head)
        return int((await first_line(stream)).split()[1])


async def first_line(stream: SocketStream) -> bytes:
    received = b""
    while b"\r\n" not in received:
        received += await stream.receive()
    return received
