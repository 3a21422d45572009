"""Errors of the paths of executions and graphs have their own body, wherever they come from."""

import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from execution_routes import COMMAND, MAX_BYTES, SECRET, add_routes
from pyoco_testkit.nats_server import NatsServer
from raw_http import raw

KEY = {"X-Idempotency-Key": "k-1"}


@pytest.fixture
async def served(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[httpx.AsyncClient]:
    """Give a gateway with further routes under these paths."""
    add_routes(monkeypatch)
    async with start_gateway(nats_server.url) as http:
        yield http


def error_in(answer: httpx.Response) -> dict[str, Any]:
    """Return the error in a body that has nothing else; check the ids in it and around it."""
    body = answer.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"code", "message", "details"}
    assert error["details"]["requestId"] == answer.headers["X-Request-ID"]
    assert error["details"]["errId"].startswith("ERR-PYOCO-")
    assert answer.headers["X-Correlation-Id"]
    return error


@pytest.mark.parametrize(
    "path", ["/executions/none/nothing", "/executions/a/b/c/d", "/graphs/a/b/c", "/waits/a/b"]
)
async def test_an_unknown_path_answers_404(gateway: httpx.AsyncClient, path: str) -> None:
    answer = await gateway.get(path)

    assert answer.status_code == 404
    error = error_in(answer)
    assert (error["code"], error["details"]["errId"]) == ("NOT_FOUND", "ERR-PYOCO-0110")
    assert error["details"]["detail"] == f"{path} does not exist"


@pytest.mark.parametrize("path", ["/executionsX", "/nothing", "/runs/executions/x"])
async def test_an_unknown_path_beside_them_has_the_other_body(
    gateway: httpx.AsyncClient, path: str
) -> None:
    answer = await gateway.get(path)

    assert answer.json()["err_id"] == "ERR-PYOCO-0110"
    assert answer.json().keys() == {
        *("detail", "err_id", "msg_id", "message", "hint", "request_id")
    }
    assert "X-Correlation-Id" not in answer.headers


async def test_the_message_is_in_the_language_of_the_caller(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/waits/a/b", headers={"Accept-Language": "ja"})

    error = error_in(answer)
    assert error["message"] == "このパスは存在しません"
    assert re.search("[ぁ-ん]", error["details"]["hint"])


async def test_a_wrong_method_answers_405_with_the_methods(served: httpx.AsyncClient) -> None:
    answer = await served.get(COMMAND)

    assert (answer.status_code, error_in(answer)["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"] == "POST"


async def test_a_crash_answers_500_without_its_cause(served: httpx.AsyncClient) -> None:
    answer = await served.get("/executions/none/crash")

    error = error_in(answer)
    assert (answer.status_code, error["code"]) == (500, "INTERNAL")
    assert error["details"]["errorId"] == answer.headers["X-Request-ID"]
    assert SECRET not in answer.text


async def test_a_refusal_of_the_broker_answers_503_and_when_to_try_again(
    served: httpx.AsyncClient,
) -> None:
    answer = await served.get("/executions/none/refused")

    assert (answer.status_code, error_in(answer)["code"]) == (503, "BROKER_UNAVAILABLE")
    assert answer.headers["Retry-After"] == "1"


async def test_an_error_may_choose_when_to_try_again(served: httpx.AsyncClient) -> None:
    answer = await served.get("/executions/none/busy")

    error = error_in(answer)
    assert (answer.status_code, error["code"]) == (503, "EXECUTION_BUSY")
    assert answer.headers["Retry-After"] == "7"
    assert error["details"]["retryAfterSec"] == 7


async def test_a_value_that_the_framework_refuses_is_listed(served: httpx.AsyncClient) -> None:
    answer = await served.get("/waits/none", params={"limit": "many"})

    error = error_in(answer)
    assert (answer.status_code, error["code"]) == (422, "INVALID_REQUEST")
    (problem,) = error["details"]["problems"]
    assert problem.keys() == {"where", "what"}
    assert problem["where"] == "query.limit"


async def test_an_unknown_query_parameter_is_refused(served: httpx.AsyncClient) -> None:
    answer = await served.get("/waits/none", params={"limits": "1"})

    error = error_in(answer)
    assert (answer.status_code, error["code"]) == (422, "INVALID_REQUEST")
    assert [each["where"] for each in error["details"]["problems"]] == ["limits"]


async def test_a_body_above_the_limit_answers_413_with_and_without_its_length(
    served: httpx.AsyncClient,
) -> None:
    body = b'{"a": "' + b"x" * MAX_BYTES + b'"}'

    async def parts() -> AsyncGenerator[bytes]:
        yield body

    headers = {**KEY, "Content-Type": "application/json"}
    for content in (body, parts()):
        answer = await served.post(COMMAND, content=content, headers=headers)
        error = error_in(answer)
        assert (answer.status_code, error["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert error["details"]["maxBytes"] == MAX_BYTES
        assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("headers", "err_id"),
    [
        ({"Content-Type": "text/plain"}, "ERR-PYOCO-0103"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "ERR-PYOCO-0103"),
        ({}, "ERR-PYOCO-0103"),
    ],
)
async def test_another_content_type_or_encoding_answers_415(
    served: httpx.AsyncClient, headers: dict[str, str], err_id: str
) -> None:
    answer = await served.post(COMMAND, content=b"{}", headers={**KEY, **headers})

    error = error_in(answer)
    assert (answer.status_code, error["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert error["details"]["errId"] == err_id


async def test_a_page_of_another_origin_and_another_host_name_are_refused(
    served: httpx.AsyncClient,
) -> None:
    page = await served.post(COMMAND, json={}, headers={**KEY, "Origin": "https://evil.example"})
    host = await served.get("/executions/none/busy", headers={"Host": "evil.example"})

    assert (page.status_code, error_in(page)["code"]) == (403, "FORBIDDEN")
    assert "scope" not in error_in(page)["details"]
    assert (host.status_code, error_in(host)["code"]) == (421, "MISDIRECTED_REQUEST")


async def test_a_repeated_host_header_answers_400(gateway: httpx.AsyncClient) -> None:
    answer = await raw(
        gateway, b"GET /executions/x HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"
    )

    assert answer.status == 400
    assert b'{"error":{"code":"BAD_REQUEST"' in answer.body


async def test_a_request_above_its_time_has_an_unknown_outcome(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_routes(monkeypatch)
    async with start_gateway(nats_server.url, PYOCO_HTTP_REQUEST_TIMEOUT_SEC="0.3") as http:
        answer = await http.get("/executions/none/slow")

    assert (answer.status_code, error_in(answer)["code"]) == (503, "OUTCOME_UNKNOWN")
    assert answer.headers["Retry-After"] == "1"


async def test_a_body_that_arrives_too_slowly_answers_408(
    start_gateway: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_routes(monkeypatch)
    async with start_gateway(nats_server.url, PYOCO_HTTP_BODY_TIMEOUT_SEC="0.3") as http:
        answer = await raw(
            http,
            f"POST {COMMAND} HTTP/1.1\r\nHost: localhost\r\nX-Idempotency-Key: k\r\n".encode()
            + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        )

    assert answer.status == 408
    assert b'{"error":{"code":"REQUEST_TIMEOUT"' in answer.body
