"""Every failure has a body with its ids, and every answer has a request id."""

import logging
import re

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_gateway.http.errors import CrashHandler, add_error_handlers
from pyoco_gateway.http.request_ids import RequestIds
from pyoco_protocol.jetstream.requests import RefusedError

SECRET = "hunter2"


async def ask(app: ASGIApp, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path, headers=headers)


def app_that_fails() -> ASGIApp:
    api = FastAPI()
    add_error_handlers(api)

    @api.get("/crash")
    async def crash() -> None:
        raise RuntimeError(SECRET)

    @api.get("/refused")
    async def refused() -> None:
        raise RefusedError(503, 10077, "maximum messages exceeded")

    return RequestIds(CrashHandler(api))


@pytest.mark.parametrize(
    ("method", "path", "status", "err_id"),
    [
        ("GET", "/nothing", 404, "ERR-PYOCO-0110"),
        ("GET", "/runs/", 404, "ERR-PYOCO-0110"),
        ("PUT", "/runs", 405, "ERR-PYOCO-0111"),
        ("POST", "/health", 405, "ERR-PYOCO-0111"),
        ("PUT", "/runs/x/tasks", 405, "ERR-PYOCO-0111"),
        ("GET", "/docs", 404, "ERR-PYOCO-0110"),
    ],
)
async def test_an_unknown_path_or_method_is_answered_with_ids(
    gateway: httpx.AsyncClient, method: str, path: str, status: int, err_id: str
) -> None:
    answer = await gateway.request(method, path, headers={"Accept-Language": "ja"})

    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (status, err_id)
    assert set(problem) == {"detail", "err_id", "msg_id", "message", "hint", "request_id"}
    assert re.search("[ぁ-ん]", problem["message"])
    if status == 405:
        assert answer.headers["Allow"]


async def test_a_crash_shows_only_its_id(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask(app_that_fails(), "/crash")

    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (500, "ERR-PYOCO-0106")
    assert problem["error_id"] == problem["request_id"] == answer.headers["X-Request-Id"]
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert getattr(record, "request_id", None) == problem["request_id"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)


async def test_a_crash_in_a_middleware_is_answered_too() -> None:
    async def crash(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError(SECRET)

    answer = await ask(RequestIds(CrashHandler(crash)), "/")

    assert (answer.status_code, answer.json()["err_id"]) == (500, "ERR-PYOCO-0106")


async def test_a_refusal_of_the_broker_answers_503() -> None:
    answer = await ask(app_that_fails(), "/refused")

    assert (answer.status_code, answer.json()["err_id"]) == (503, "ERR-PYOCO-0003")


async def test_a_valid_request_id_of_the_caller_is_kept(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/health", headers={"X-Request-Id": "trace-1.a_B"})

    assert answer.headers["X-Request-Id"] == "trace-1.a_B"


@pytest.mark.parametrize("sent", ["", "a b", "x" * 65, "<script>", "a\tb", "é"])
async def test_any_other_request_id_is_replaced(gateway: httpx.AsyncClient, sent: str) -> None:
    headers = {b"X-Request-Id": sent.encode("latin-1")}

    first = await gateway.get("/health", headers=headers)
    second = await gateway.get("/health", headers=headers)

    ids = {first.headers["X-Request-Id"], second.headers["X-Request-Id"]}
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
