"""Who calls, behind proxies."""

import ipaddress
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from pyoco_gateway.http.forwarded import PeerAddresses, peer_behind
from pyoco_protocol.settings.http_server import Network
from pyoco_testkit.nats_server import NatsServer

TRUSTED: list[Network] = [
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_network("2001:db8:1::/48"),
]


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        # Nobody believes who is no proxy.
        ("203.0.113.9", ["6.6.6.6"], "203.0.113.9"),
        ("127.0.0.1", ["6.6.6.6"], "127.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        # What the caller wrote itself stands on the left.
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.7, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("2001:db8:1::5", ["2001:db8:9::1"], "2001:db8:9::1"),
        # All of them are ours: the farthest.
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        # With ports, as some proxies write them.
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8:9::1]:4711"], "2001:db8:9::1"),
        ("10.0.0.1", [" 203.0.113.9 "], "203.0.113.9"),
        # IPv4 in IPv6 is the same address.
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        # What is no address ends the chain.
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["<script>"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6,"], "10.0.0.1"),
        ("not an address", ["6.6.6.6"], "not an address"),
    ],
)
def test_the_caller_is_the_nearest_that_is_no_proxy_of_ours(
    peer: str, forwarded: list[str], caller: str
) -> None:
    assert peer_behind(peer, forwarded, TRUSTED) == caller


def test_a_chain_without_end_is_not_followed_to_its_end() -> None:
    assert peer_behind("10.0.0.1", ["6.6.6.6", "10.0.0.2," * 10_000 + "10.0.0.2"], TRUSTED) == (
        "10.0.0.2"
    )


@given(st.ip_addresses().map(str), st.lists(st.text(max_size=30), max_size=5))
def test_whoever_is_no_proxy_is_who_it_is(peer: str, forwarded: list[str]) -> None:
    assert peer_behind(peer, forwarded, []) == peer


@given(st.lists(st.text(max_size=30) | st.ip_addresses().map(str), max_size=5))
def test_a_caller_cannot_choose_its_address(written: list[str]) -> None:
    """Whatever it writes into the header: the proxy adds the truth at the end."""
    assert peer_behind("10.0.0.1", [*written, "203.0.113.9"], TRUSTED) == "203.0.113.9"


@pytest.mark.parametrize("header", ["x-real-ip", "forwarded", "x-client-ip", "true-client-ip"])
async def test_no_other_header_is_believed(header: str) -> None:
    headers = [(header.encode(), b"for=6.6.6.6" if header == "forwarded" else b"6.6.6.6")]

    assert await client_seen("10.0.0.1", headers) == ("10.0.0.1", 4711)


async def test_all_that_follows_sees_the_caller() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-real-ip", b"6.6.6.6")]

    assert await client_seen("10.0.0.1", headers) == ("203.0.113.9", 0)


@pytest.mark.parametrize(
    ("trusted", "statuses"),
    [
        # Nobody can dodge a limit by what it writes.
        ({}, [200, 429, 429, 429]),
        ({"PYOCO_TRUSTED_PROXIES": "192.0.2.1"}, [200, 429, 429, 429]),
        ({"PYOCO_TRUSTED_PROXIES": "192.0.2.1, 127.0.0.0/8"}, [200, 200, 429, 429]),
    ],
    ids=["nobody", "somebody else", "this one"],
)
async def test_limits_go_by_who_calls(
    start_gateway: Any, nats_server: NatsServer, trusted: dict[str, str], statuses: list[int]
) -> None:
    """PITFALLS 28: uvicorn would believe whoever calls from loopback."""
    found: list[int] = []
    limits = {"PYOCO_SSE_MAX_STREAMS_PER_PEER": "1"}
    async with AsyncExitStack() as held:
        gateway = await held.enter_async_context(
            start_gateway(nats_server.url, **limits, **trusted)
        )
        for forwarded in ("203.0.113.1", "203.0.113.2", "6.6.6.6, 203.0.113.2", "203.0.113.1"):
            stream = gateway.stream(
                "GET", "/runs/watch", headers={"X-Forwarded-For": forwarded, "X-Real-IP": forwarded}
            )
            found.append((await held.enter_async_context(stream)).status_code)

    assert found == statuses


async def client_seen(peer: str, headers: list[tuple[bytes, bytes]]) -> Any:
    """Return who calls, as the application sees it."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"])

    async def receive() -> Any:
        raise AssertionError("nobody reads")

    async def send(message: Any) -> None:
        raise AssertionError("nobody answers")

    scope = {"type": "http", "client": (peer, 4711), "headers": headers}
    await PeerAddresses(app, TRUSTED)(scope, receive, send)
    return seen[0]
