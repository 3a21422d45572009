"""Clients that do not read their responses."""

from typing import Any

import psutil
import pytest

from pyoco_gateway.http import server
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from sse_client import stalled_reader


async def test_a_connection_with_an_unread_response_is_closed(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a connection waits for unsent bytes, and a client may never read them."""
    monkeypatch.setattr(server, "_KEEP_ALIVE_SEC", 1)
    large = {"flow_name": "hello", "params": {"text": "x" * 190_000}}
    async with start_gateway(nats_server.url) as gateway:
        run_id = (await gateway.post("/runs", json=large)).json()["run_id"]
        with stalled_reader(str(gateway.base_url), f"/runs/{run_id}") as reader:
            _, port = reader.getsockname()

            def served() -> bool:
                found = psutil.Process().net_connections("tcp4")
                return any(getattr(each.raddr, "port", None) == port for each in found)

            await eventually(served, True)
            await eventually(served, False)


async def test_a_connection_with_an_unread_response_and_a_second_request_is_closed(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second response waits until the client reads the first, which may be never."""
    monkeypatch.setattr(server, "_KEEP_ALIVE_SEC", 1)
    large = {"flow_name": "hello", "params": {"text": "x" * 190_000}}
    async with start_gateway(nats_server.url) as gateway:
        run_id = (await gateway.post("/runs", json=large)).json()["run_id"]
        with stalled_reader(str(gateway.base_url), f"/runs/{run_id}") as reader:
            again = f"GET /runs/{run_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            reader.sendall(again * 8)
            _, port = reader.getsockname()
            await eventually(lambda: _is_connected(port), True)
            await eventually(lambda: _is_connected(port), False)


def _is_connected(port: int) -> bool:
    found = psutil.Process().net_connections("tcp4")
    return any(
        getattr(each.raddr, "port", None) == port and each.status == psutil.CONN_ESTABLISHED
        for each in found
    )
