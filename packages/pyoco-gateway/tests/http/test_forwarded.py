"""Client addresses behind proxies."""

import ipaddress
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from pyoco_gateway.http.forwarded import ForwardedFor, client_behind
from pyoco_protocol.settings.http_server import Network
from pyoco_testkit.nats_server import NatsServer

TRUSTED: list[Network] = [
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_network("2001:db8:1::/48"),
]


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        # A caller that is not a trusted proxy is not believed.
        ("203.0.113.9", ["6.6.6.6"], "203.0.113.9"),
        ("127.0.0.1", ["6.6.6.6"], "127.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        # The caller's own entries come first.
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.7, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["6.6.6.6, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("2001:db8:1::5", ["2001:db8:9::1"], "2001:db8:9::1"),
        # All hops are trusted: the farthest one counts.
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        # Some proxies append ports.
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8:9::1]:4711"], "2001:db8:9::1"),
        ("10.0.0.1", [" 203.0.113.9 "], "203.0.113.9"),
        # An IPv4-mapped IPv6 address is the same address.
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        # An invalid address ends the chain.
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["<script>"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6,"], "10.0.0.1"),
        ("not an address", ["6.6.6.6"], "not an address"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_not_a_trusted_proxy(
    peer: str, forwarded: list[str], caller: str
) -> None:
    assert client_behind(peer, forwarded, TRUSTED) == caller


def test_only_the_last_hops_of_a_long_chain_are_read() -> None:
    assert client_behind("10.0.0.1", ["6.6.6.6", "10.0.0.2," * 10_000 + "10.0.0.2"], TRUSTED) == (
        "10.0.0.2"
    )


@given(st.ip_addresses().map(str), st.lists(st.text(max_size=30), max_size=5))
def test_the_header_of_an_untrusted_peer_is_ignored(peer: str, forwarded: list[str]) -> None:
    assert client_behind(peer, forwarded, []) == peer


@given(st.lists(st.text(max_size=30) | st.ip_addresses().map(str), max_size=5))
def test_a_client_cannot_choose_its_address(written: list[str]) -> None:
    """The proxy appends the real address to the client's own entries."""
    assert client_behind("10.0.0.1", [*written, "203.0.113.9"], TRUSTED) == "203.0.113.9"


@pytest.mark.parametrize("header", ["x-real-ip", "forwarded", "x-client-ip", "true-client-ip"])
async def test_other_forwarding_headers_are_ignored(header: str) -> None:
    headers = [(header.encode(), b"for=6.6.6.6" if header == "forwarded" else b"6.6.6.6")]

    assert await client_seen("10.0.0.1", headers) == ("10.0.0.1", 4711)


async def test_the_application_sees_the_address_of_the_client() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-real-ip", b"6.6.6.6")]

    assert await client_seen("10.0.0.1", headers) == ("203.0.113.9", 0)


@pytest.mark.parametrize(
    ("trusted", "statuses"),
    [
        # The header of an untrusted caller does not change its address.
        ({}, [200, 429, 429, 429]),
        ({"PYOCO_TRUSTED_PROXIES": "192.0.2.1"}, [200, 429, 429, 429]),
        ({"PYOCO_TRUSTED_PROXIES": "192.0.2.1, 127.0.0.0/8"}, [200, 200, 429, 429]),
    ],
    ids=["no proxy", "another proxy", "this proxy"],
)
async def test_rate_limits_count_by_the_forwarded_address(
    start_gateway: Any, nats_server: NatsServer, trusted: dict[str, str], statuses: list[int]
) -> None:
    """Uvicorn by default would trust every caller from loopback."""
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
    """Return the client in the scope that the application gets."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"])

    async def receive() -> Any:
        raise AssertionError("receive was called")

    async def send(message: Any) -> None:
        raise AssertionError("send was called")

    scope = {"type": "http", "client": (peer, 4711), "headers": headers}
    await ForwardedFor(app, TRUSTED)(scope, receive, send)
    return seen[0]
