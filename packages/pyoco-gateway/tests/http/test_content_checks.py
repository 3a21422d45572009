"""Paths that accept JSON and YAML accept nothing else, and JSON paths accept what they did."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from execution_routes import DOCUMENT, MAX_BYTES, add_routes
from pyoco_gateway.http.body_rules import BodyRule
from pyoco_testkit.nats_server import NatsServer

RULE = BodyRule.json_or_yaml(10)


@pytest.fixture
async def served(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[httpx.AsyncClient]:
    """Give a gateway with a route for documents."""
    add_routes(monkeypatch)
    async with start_gateway(nats_server.url) as http:
        yield http


@pytest.mark.parametrize(
    ("sent", "media_type"),
    [
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("Application/YAML; charset=utf-8", "application/yaml"),
    ],
)
async def test_the_route_knows_the_type_of_a_document(
    served: httpx.AsyncClient, sent: str, media_type: str
) -> None:
    answer = await served.put(DOCUMENT, content=b"{}", headers={"Content-Type": sent})

    assert (answer.status_code, answer.json()) == (200, {"name": "a", "type": media_type})


@pytest.mark.parametrize(
    "sent", ["text/plain", "application/xml", "text/yaml", "multipart/form-data; boundary=x", None]
)
async def test_any_other_type_is_refused_and_both_types_are_named(
    served: httpx.AsyncClient, sent: str | None
) -> None:
    headers = {} if sent is None else {"Content-Type": sent}

    answer = await served.put(DOCUMENT, content=b"{}", headers=headers)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert error["details"]["detail"].endswith("; send application/json or application/yaml")


async def test_the_size_limit_of_a_path_with_a_placeholder_is_its_own(
    served: httpx.AsyncClient,
) -> None:
    headers = {"Content-Type": "application/yaml"}

    answer = await served.put(DOCUMENT, content=b"#" * (MAX_BYTES + 1), headers=headers)

    assert answer.status_code == 413
    assert answer.json()["error"]["details"]["maxBytes"] == MAX_BYTES


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        (b"application/json", True),
        (b"application/yaml", True),
        (b"application/yaml;x", True),
        (b"", True),
        (b"application/vnd.x+json", False),
        (b"text/plain", False),
    ],
)
def test_a_rule_for_documents_accepts_two_types(header: bytes, is_accepted: bool) -> None:
    assert RULE.accepts(header) is is_accepted


def test_a_rule_names_the_types_that_it_accepts() -> None:
    assert RULE.supported == ["application/json", "application/yaml"]
    assert BodyRule.json(1).supported == ["application/json"]
