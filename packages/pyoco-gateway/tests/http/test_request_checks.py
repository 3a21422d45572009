"""The first look at a request: its Host, who is behind it, what it says it brings."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pyoco_gateway import app as application
from pyoco_gateway.http.origins import SAFE
from pyoco_gateway.settings import gateway_settings
from pyoco_testkit.nats_server import NatsServer
from raw_http import raw

SUBMISSION = {"flow_name": "hello"}
FORMS = {"/runs/yaml", "/runs/yaml/validate"}
# What a page can have a browser send to any address, without asking first.
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]


def changing_routes() -> Iterator[tuple[str, str]]:
    """Yield every method and path that may change something, as the application has them."""
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
            if method.upper() not in SAFE:
                yield method.upper(), path


CHANGING = sorted(changing_routes())


def spelled_out(path: str) -> str:
    return path.replace("{run_id}", "00000000-0000-4000-8000-000000000000").replace("{seq}", "1")


async def test_names_of_this_machine_are_answered(gateway: httpx.AsyncClient) -> None:
    for host in ("localhost", "localhost:1", "LOCALHOST.", "127.0.0.1", "127.9.9.9:80", "[::1]:8"):
        assert (await gateway.get("/health", headers={"Host": host})).status_code == 200, host


async def test_a_name_that_was_made_to_lead_here_is_answered_nothing(
    gateway: httpx.AsyncClient,
) -> None:
    """A page whose name resolves to this machine could read and change everything."""
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
        for path in ("/", "/health", "/runs", "/metrics", "/openapi.json", "/nothing"):
            answer = await gateway.get(path, headers={"Host": host})
            assert (answer.status_code, answer.json()["err_id"]) == (421, "ERR-PYOCO-0135")


async def test_a_name_that_was_made_to_lead_here_changes_nothing(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    answer = await gateway.post("/runs", json=SUBMISSION, headers={"Host": "evil.example"})

    assert answer.status_code == 421
    assert await store.runs() == {}


async def test_a_host_that_is_missing_twice_there_or_none_is_refused(
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


async def test_names_that_the_operator_allows_are_answered(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    allowed = "pyoco.example, pyoco.internal"
    async with start_gateway(nats_server.url, PYOCO_ALLOWED_HOSTS=allowed) as gateway:
        statuses = [
            (await gateway.get("/health", headers={"Host": host})).status_code
            for host in ("pyoco.example:8443", "PYOCO.internal", "127.0.0.1", "evil.example")
        ]

    assert statuses == [200, 200, 200, 421]


def test_every_route_that_changes_something_is_looked_at() -> None:
    """The list is the application's own; these are there at least."""
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


async def test_no_route_takes_what_a_form_of_any_page_could_send(
    gateway: httpx.AsyncClient,
) -> None:
    """With and without a body: a cancel needs none."""
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


async def test_one_good_content_type_does_not_excuse_a_bad_one(gateway: httpx.AsyncClient) -> None:
    answer = await raw(
        gateway,
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n"
        b"Content-Type: application/json\r\nContent-Type: text/plain\r\n\r\n{}",
    )

    assert answer.status == 415


async def test_a_page_of_another_site_changes_nothing(
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


async def test_a_page_of_our_own_may_change_things(gateway: httpx.AsyncClient) -> None:
    own = str(gateway.base_url).rstrip("/")
    for headers in ({"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}):
        answer = await gateway.post("/runs", json=SUBMISSION, headers=headers)
        assert answer.status_code == 200


async def test_a_page_of_another_site_may_lead_to_ours(gateway: httpx.AsyncClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    assert (await gateway.get("/", headers=headers)).status_code == 200


async def test_a_compressed_body_is_refused_unread(gateway: httpx.AsyncClient, store: Any) -> None:
    for encoding in ("gzip", "deflate", "br", "zstd", "identity, gzip", "x"):
        answer = await gateway.post(
            "/runs", json=SUBMISSION, headers={"Content-Encoding": encoding}
        )
        assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103")
        assert "Content-Encoding" in answer.json()["detail"]

    assert await store.runs() == {}


async def test_no_browser_is_told_that_another_site_may_read_this(
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
