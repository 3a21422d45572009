"""The page at `/`, `/health`, and the API description."""

import re
from typing import Any

import httpx
import pytest

from pyoco_gateway import __version__
from pyoco_gateway.app import MIDDLEWARE_STATUSES
from pyoco_testkit.nats_server import NatsServer


async def test_health_says_that_this_process_serves(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/health")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})
    assert (await gateway.head("/health")).status_code == 200


@pytest.mark.parametrize(
    ("setting", "accepted", "shown"),
    [
        ("auto", "ja,en;q=0.5", "ja"),
        ("auto", "fr", "en"),
        ("ja", "en", "ja"),
        ("en", "ja", "en"),
    ],
)
async def test_the_page_has_the_language_of_the_setting_or_of_the_browser(
    nats_server: NatsServer, start_gateway: Any, setting: str, accepted: str, shown: str
) -> None:
    async with start_gateway(nats_server.url, PYOCO_DASHBOARD_LANG=setting) as gateway:
        page = (await gateway.get("/", headers={"Accept-Language": accepted})).text

    assert f'<html lang="{shown}">' in page
    assert bool(re.search("[ぁ-んァ-ン]", page)) == (shown == "ja")


async def test_the_page_loads_nothing_and_shows_no_text_of_the_request(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    """Users paste its commands into a shell."""
    async with start_gateway(nats_server.url, PYOCO_ALLOWED_HOSTS="named.example") as gateway:
        answer = await gateway.get("/", headers={"Host": "named.example"})

    assert answer.headers["Content-Type"].startswith("text/html")
    assert not re.search(r"<script|<style|style=|\bon\w+=|https?://(?!127\.0\.0\.1)", answer.text)
    assert "named.example" not in answer.text


async def test_every_link_of_the_page_answers_200(gateway: httpx.AsyncClient) -> None:
    english, japanese = [
        re.findall('href="([^"]+)"', (await gateway.get("/", headers=asked)).text)
        for asked in ({"Accept-Language": "en"}, {"Accept-Language": "ja"})
    ]

    assert english == japanese
    assert {"/runs", "/workers", "/queues", "/dlq", "/metrics"} <= set(english)
    for link in english:
        assert (await gateway.get(link)).status_code == 200


async def test_the_api_description_has_bodies_for_success_and_failure(
    gateway: httpx.AsyncClient,
) -> None:
    description = (await gateway.get("/openapi.json")).json()

    paths = description["paths"]
    assert {
        "/runs",
        "/runs/counts",
        "/runs/yaml",
        "/runs/yaml/validate",
        "/runs/{run_id}",
        "/runs/{run_id}/tasks",
        "/runs/{run_id}/cancel",
        "/dlq",
        "/workers",
        "/workers/{worker_id}",
        "/queues",
        "/metrics",
        "/runs/{run_id}/watch",
        "/runs/watch",
        "/runs/{run_id}/logs",
        "/health",
    } <= set(paths)
    post = paths["/runs"]["post"]
    body = post["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["flow_name"]
    assert set(body["properties"]) == {"flow_name", "params", "tag", "tags"}
    assert {"200", "409", "413", "415", "422", "503"} <= set(post["responses"])
    assert {"200", "404", "422", "503"} <= set(paths["/runs/{run_id}"]["get"]["responses"])
    # Middleware may answer a request for any route.
    for operations in paths.values():
        for operation in operations.values():
            assert set(map(str, MIDDLEWARE_STATUSES)) <= set(operation["responses"])
    for status, response in post["responses"].items():
        name = "RunAccepted" if status == "200" else "Problem"
        schema = response["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{name}"}
    problem = description["components"]["schemas"]["Problem"]["properties"]
    assert {"detail", "err_id", "msg_id", "message", "hint", "request_id"} <= set(problem)
    references = set(re.findall(r"#/components/schemas/(\w+)", str(description)))
    assert references <= set(description["components"]["schemas"])
    # References inside a single schema do not resolve in the whole document.
    assert "#/$defs/" not in str(description)
