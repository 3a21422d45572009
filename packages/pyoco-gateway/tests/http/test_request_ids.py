"""Correlation ids: chosen by the caller, or else the id of the request."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from execution_routes import COMMAND, add_routes
from pyoco_testkit.nats_server import NatsServer

PATH = "/executions/none/nothing"
KEY = {"X-Idempotency-Key": "k-1"}


@pytest.fixture
async def served(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[httpx.AsyncClient]:
    """Give a gateway with a route that shows the correlation id."""
    add_routes(monkeypatch)
    async with start_gateway(nats_server.url) as http:
        yield http


@pytest.mark.parametrize("sent", ["order 7", "~", "a" * 128, '{"a": 1}', "trace:1;x=y, z"])
async def test_the_correlation_id_of_the_caller_is_answered(
    gateway: httpx.AsyncClient, sent: str
) -> None:
    answer = await gateway.get(PATH, headers={"X-Correlation-Id": sent, "X-Request-Id": "r-1"})

    assert answer.headers["X-Correlation-Id"] == sent
    assert answer.headers["X-Request-Id"] == "r-1"


@pytest.mark.parametrize("sent", [None, "", "a" * 129, "é", "a\tb"])
async def test_without_an_acceptable_one_it_is_the_request_id(
    gateway: httpx.AsyncClient, sent: str | None
) -> None:
    headers = {} if sent is None else {b"X-Correlation-Id": sent.encode("latin-1")}

    answer = await gateway.get(PATH, headers=headers)

    assert answer.headers["X-Correlation-Id"] == answer.headers["X-Request-Id"]


async def test_the_route_knows_the_correlation_id(served: httpx.AsyncClient) -> None:
    chosen = await served.post(COMMAND, headers={**KEY, "X-Correlation-Id": "order 7"})
    other = await served.post(COMMAND, headers=KEY)

    assert chosen.json()["correlation_id"] == chosen.headers["X-Correlation-Id"] == "order 7"
    assert other.json()["correlation_id"] == other.headers["X-Request-Id"]


async def test_other_paths_have_no_correlation_id(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/health", headers={"X-Correlation-Id": "order 7"})

    assert "X-Correlation-Id" not in answer.headers
