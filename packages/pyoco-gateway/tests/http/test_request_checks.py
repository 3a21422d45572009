"""Checks of request headers: Host, Origin, Content-Type, Content-Encoding."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pyoco_gateway import app as application
from pyoco_gateway.http.origins import SAFE_METHODS
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.nats_server import NatsServer
from raw_http import raw

SUBMISSION = {"flow_name": "hello"}
FORMS = {"/runs/yaml", "/runs/yaml/validate"}
# Content types that a page can make a browser send to any site without a preflight request.
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]


def changing_routes() -> Iterator[tuple[str, str]]:
    """Yield every unsafe method and path of the application."""
    found: list[FastAPI] = []

    class Noted(FastAPI):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            found.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "FastAPI", Noted)
        application.create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0"}))
    for path, operations in found[0].openapi()["paths"].items():
        for method in operations:
            if method.upper() not in SAFE_METHODS:
                yield method.upper(), path


CHANGING = sorted(changing_routes())


def spelled_out(path: str) -> str:
    return path.replace("{run_id}", "00000000-0000-4000-8000-000000000000").replace("{seq}", "1")


async def test_local_host_names_are_accepted(gateway: httpx.AsyncClient) -> None:
    for host in ("localhost", "localhost:1", "LOCALHOST.", "127.0.0.1", "127.9.9.9:80", "[::1]:8"):
        assert (await gateway.get("/health", headers={"Host": host})).status_code == 200, host


async def test_a_rebound_host_name_cannot_read(
    gateway: httpx.AsyncClient,
) -> None:
    """DNS rebinding: a page whose host name resolves to this machine could read everything."""
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
        for path in ("/", "/health", "/runs", "/metrics", "/openapi.json", "/nothing"):
            answer = await gateway.get(path, headers={"Host": host})
            assert (answer.status_code, answer.json()["err_id"]) == (421, "ERR-PYOCO-0135")


async def test_a_rebound_host_name_cannot_change_anything(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    answer = await gateway.post("/runs", json=SUBMISSION, headers={"Host": "evil.example"})

    assert answer.status_code == 421
    assert await store.runs() == {}


async def test_a_missing_repeated_or_invalid_host_header_is_refused(
    gateway: httpx.AsyncClient,
) -> None:
    for lines in (
        b"",
        b"Host:\r\n",
        b"Host: localhost\r\nHost: localhost\r\n",
        b"Host: localhost\r\nHost: evil.example\r\n",
        b"Host: localhost, evil.example\r\n",
        b"Host: localhost@evil.example\r\n",
        b"Host: [evil.example]\r\n",
        b"Host: \xff\xfe\r\n",
    ):
        head = b"GET /runs HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n"
        answer = await raw(gateway, head)
        assert (answer.status, answer.err_id) == (400, "ERR-PYOCO-0135"), lines


async def test_host_names_in_the_settings_are_accepted(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    allowed = "pyoco.example, pyoco.internal"
    async with start_gateway(nats_server.url, PYOCO_ALLOWED_HOSTS=allowed) as gateway:
        statuses = [
            (await gateway.get("/health", headers={"Host": host})).status_code
            for host in ("pyoco.example:8443", "PYOCO.internal", "127.0.0.1", "evil.example")
        ]

    assert statuses == [200, 200, 200, 421]


def test_the_list_of_unsafe_routes_is_complete() -> None:
    """The list comes from the application; it contains at least these routes."""
    assert {
        ("POST", "/runs"),
        ("POST", "/runs/yaml"),
        ("POST", "/runs/{run_id}/cancel"),
        ("DELETE", "/runs/{run_id}"),
        ("POST", "/dlq/redrive"),
        ("POST", "/dlq/{seq}/redrive"),
        ("DELETE", "/dlq/{seq}"),
        ("PATCH", "/workers/{worker_id}"),
    } <= set(CHANGING)


async def test_no_route_accepts_a_content_type_that_needs_no_preflight(
    gateway: httpx.AsyncClient,
) -> None:
    """With and without a body, because a cancel needs none."""
    for method, path in CHANGING:
        wrong = [*SIMPLE[:2], "application/json"] if path in FORMS else SIMPLE
        for content_type in [*wrong, "application/jsonx", "text/json", "json", ""]:
            for body in (b"", b"{}"):
                answer = await gateway.request(
                    method,
                    spelled_out(path),
                    content=body,
                    headers={"Content-Type": content_type, "Content-Length": str(len(body))},
                )
                assert (answer.status_code, answer.json()["err_id"]) == (
                    415,
                    "ERR-PYOCO-0103",
                ), (method, path, content_type)


async def test_a_second_content_type_header_is_checked_too(gateway: httpx.AsyncClient) -> None:
    answer = await raw(
        gateway,
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n"
        b"Content-Type: application/json\r\nContent-Type: text/plain\r\n\r\n{}",
    )

    assert answer.status == 415


async def test_a_page_of_another_site_cannot_change_anything(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    run_id = (await gateway.post("/runs", json=SUBMISSION)).json()["run_id"]
    before = await store.runs()

    for sent in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    ):
        for method, path in CHANGING:
            kind = "multipart/form-data; boundary=x" if path in FORMS else "application/json"
            at = path.replace("{run_id}", run_id).replace("{seq}", "1")
            for headers in (sent, {**sent, "Content-Type": kind}):
                answer = await gateway.request(method, at, headers=headers)
                assert (answer.status_code, answer.json()["err_id"]) == (403, "ERR-PYOCO-0136")

    assert await store.runs() == before


async def test_an_own_page_may_change_things(gateway: httpx.AsyncClient) -> None:
    own = str(gateway.base_url).rstrip("/")
    for headers in ({"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):
        answer = await gateway.post("/runs", json=SUBMISSION, headers=headers)
        assert answer.status_code == 200


async def test_a_page_of_another_site_may_link_to_the_gateway(gateway: httpx.AsyncClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    assert (await gateway.get("/", headers=headers)).status_code == 200


async def test_a_path_that_does_not_exist_is_404_whatever_the_body_is(
    gateway: httpx.AsyncClient,
) -> None:
    """The content type of a body that no route reads is not the mistake to report."""
    upload = await gateway.post("/wheels", files={"wheel": ("a.whl", b"x")})
    assert (upload.status_code, upload.json()["err_id"]) == (404, "ERR-PYOCO-0110")
    text = await gateway.put("/nothing", content="x", headers={"Content-Type": "text/plain"})
    assert (text.status_code, text.json()["err_id"]) == (404, "ERR-PYOCO-0110")


async def test_a_compressed_body_is_refused_without_reading_it(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for encoding in ("gzip", "deflate", "br", "zstd", "identity, gzip", "x"):
        answer = await gateway.post(
            "/runs", json=SUBMISSION, headers={"Content-Encoding": encoding}
        )
        assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
        assert "Content-Encoding" in answer.json()["detail"]

    assert await store.runs() == {}


async def test_responses_have_no_cors_headers(
    gateway: httpx.AsyncClient,
) -> None:
    asked = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
        "Access-Control-Request-Private-Network": "true",
    }

    for path in ("/runs", "/", "/health", "/nothing"):
        preflight = await gateway.options(path, headers=asked)
        plain = await gateway.get(path, headers=asked)
        assert preflight.status_code in (404, 405)
        for answer in (preflight, plain):
            assert not [name for name in answer.headers if name.startswith("access-control-")]
