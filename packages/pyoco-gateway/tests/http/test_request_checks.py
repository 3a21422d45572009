"""Checks of request headers: Host, Origin, Content-Type, Content-Encoding."""

import json
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
from served_routes import err_id_in

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


async def test_a_repeated_host_header_is_refused_and_closed_with_and_without_keys(
    gateway: httpx.AsyncClient, start_gateway: Any, nats_server: NatsServer
) -> None:
    """A proxy may have checked the other one."""
    keys = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": "0123456789" * 4}
    async with start_gateway(nats_server.url, wait=False, **keys) as guarded:
        for each in (gateway, guarded):
            for second in (b"Host: localhost", b"hOST: localhost", b"Host: evil.example", b"Host:"):
                head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + second + b"\r\n\r\n"
                answer = await raw(each, head + head)
                assert (answer.status, answer.err_id) == (400, "ERR-PYOCO-0135"), second
                assert answer.headers["connection"] == "close"


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
        for content_type in wrong:
            for spelling in (
                content_type,
                content_type.upper(),
                f"{content_type}; charset=application/json",
                f"{content_type} ;",
                f"{content_type},application/json",
            ):
                for body in (b"", b"{}"):
                    answer = await gateway.request(
                        method,
                        spelled_out(path),
                        content=body,
                        headers={"Content-Type": spelling, "Content-Length": str(len(body))},
                    )
                    assert (answer.status_code, err_id_in(answer.json())) == (
                        415,
                        "ERR-PYOCO-0103",
                    ), (method, path, spelling)


async def test_a_body_without_a_content_type_is_refused(gateway: httpx.AsyncClient) -> None:
    """A page can send a `Blob` without a type, and the browser sends no Content-Type then."""
    for path, body in (
        ("/runs", SUBMISSION),
        ("/runs/{run_id}/cancel", {"reason": "r"}),
        ("/dlq/redrive", {"all": True}),
    ):
        for headers in ({}, {"Content-Type": ""}, {"Content-Type": "; charset=utf-8"}):
            answer = await gateway.post(
                spelled_out(path), content=json.dumps(body), headers=headers
            )
            assert (answer.status_code, answer.json()["err_id"]) == (415, "ERR-PYOCO-0103"), path


async def test_a_cancel_without_a_body_may_have_any_content_type_that_needs_a_preflight(
    gateway: httpx.AsyncClient,
) -> None:
    for content_type in ("application/octet-stream", "application/json", "text/xml", "", None):
        run_id = (await gateway.post("/runs", json=SUBMISSION)).json()["run_id"]
        headers = {} if content_type is None else {"Content-Type": content_type}
        answer = await gateway.post(f"/runs/{run_id}/cancel", headers=headers)
        assert answer.status_code == 200, content_type


async def test_json_is_read_with_every_content_type_that_needs_a_preflight(
    gateway: httpx.AsyncClient,
) -> None:
    for content_type in (
        "application/json",
        "application/vnd.example.run+json; charset=utf-8",
        "APPLICATION/CLOUDEVENTS+JSON",
        "application/octet-stream",
        "text/json",
        "text/plainer",
        "json",
    ):
        headers = {"Content-Type": content_type}
        accepted = await gateway.post("/runs", content=json.dumps(SUBMISSION), headers=headers)
        assert accepted.status_code == 200, content_type
        run_id = accepted.json()["run_id"]
        cancelled = await gateway.post(
            f"/runs/{run_id}/cancel", content=b'{"reason": "tired"}', headers=headers
        )
        assert (cancelled.status_code, cancelled.json()["cancel_reason"]) == (200, "tired")
        patched = await gateway.patch("/workers/w", content=b'{"hidden": true}', headers=headers)
        assert (patched.status_code, patched.json()["err_id"]) == (404, "ERR-PYOCO-0020")


async def test_a_body_that_is_not_json_is_an_invalid_request(gateway: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/xml"}

    answer = await gateway.post("/runs", content=b"<run/>", headers=headers)

    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")


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
                assert (answer.status_code, err_id_in(answer.json())) == (403, "ERR-PYOCO-0136")

    assert await store.runs() == before


async def test_an_accepted_host_name_is_not_a_trusted_origin(
    start_gateway: Any, nats_server: NatsServer, store: Any
) -> None:
    """`--host 127.0.0.1` adds the address to the accepted host names."""
    settings = {"PYOCO_ALLOWED_HOSTS": "127.0.0.1,pyoco.example"}
    async with start_gateway(nats_server.url, **settings) as gateway:
        for sent in (
            {"Origin": "http://127.0.0.1:3000"},
            {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
            {"Origin": "https://pyoco.example", "Sec-Fetch-Site": "cross-site"},
        ):
            answer = await gateway.post("/runs", json=SUBMISSION, headers=sent)
            assert answer.status_code == 403, sent
            assert answer.json()["err_id"] == "ERR-PYOCO-0136"

    assert await store.runs() == {}


async def test_a_trusted_origin_may_change_things_and_its_other_ports_may_not(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    trusted = "https://dashboard.example, http://127.0.0.1:3000"
    async with start_gateway(nats_server.url, PYOCO_TRUSTED_ORIGINS=trusted) as gateway:
        statuses = {
            origin: (
                await gateway.post(
                    "/runs",
                    json=SUBMISSION,
                    headers={"Origin": origin, "Sec-Fetch-Site": "cross-site"},
                )
            ).status_code
            for origin in (
                "https://dashboard.example",
                "http://127.0.0.1:3000",
                "http://dashboard.example",
                "https://dashboard.example:8443",
                "http://127.0.0.1:3001",
            )
        }

    assert list(statuses.values()) == [200, 200, 403, 403, 403], statuses


async def test_a_trusted_origin_is_not_an_accepted_host_name(
    start_gateway: Any, nats_server: NatsServer
) -> None:
    trusted = "http://dashboard.example"
    async with start_gateway(nats_server.url, PYOCO_TRUSTED_ORIGINS=trusted) as gateway:
        answer = await gateway.get("/runs", headers={"Host": "dashboard.example"})

    assert answer.status_code == 421


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
