"""Unknown query parameters: ignored and named by reads, refused by requests that change things."""

from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_gateway.http.query_rules import IGNORED_HEADER, QueryRule, header_value
from pyoco_protocol.problems import InvalidRequestError
from pyoco_testkit.builders import snapshot
from sse_client import watching

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
READS = [
    "/runs",
    "/runs?updated_after=0",
    "/runs/counts",
    f"/runs/{RUN}",
    f"/runs/{RUN}/tasks",
    f"/runs/{RUN}/logs",
    "/workers",
    "/metrics",
    "/health",
    "/queues",
]
CHANGES = [
    ("POST", "/dlq/redrive", {"all": True}),
    ("POST", "/dlq/1/redrive", None),
    ("DELETE", "/dlq/1", None),
    ("DELETE", f"/runs/{RUN}", None),
    ("POST", f"/runs/{RUN}/cancel", None),
    ("PATCH", "/workers/worker-1", {"hidden": True}),
]
STRICT = {"Prefer": "handling=strict"}


@pytest.fixture
async def run(gateway: httpx.AsyncClient, store: Any) -> None:
    """Store a run in the bucket that the gateway has created."""
    assert (await gateway.get("/health")).status_code == 200
    value = snapshot(run_id=RUN, status="COMPLETED").to_bytes()
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", value)


@pytest.mark.usefixtures("run")
async def test_a_read_ignores_unknown_parameters_and_names_them(gateway: httpx.AsyncClient) -> None:
    for path in READS:
        known = await gateway.get(path)
        assert (known.status_code, known.headers.get(IGNORED_HEADER)) == (200, None), path
        query = "&" if "?" in path else "?"
        answer = await gateway.get(f"{path}{query}colour=red&offset=5&colour=blue")
        assert answer.status_code == 200, answer.text
        assert answer.headers[IGNORED_HEADER] == "colour, offset", path


@pytest.mark.usefixtures("run")
async def test_streams_name_ignored_parameters_too(gateway: httpx.AsyncClient) -> None:
    for path, query in (
        (f"/runs/{RUN}/watch", {}),
        ("/runs/watch", {}),
        (f"/runs/{RUN}/logs", {"follow": 1}),
    ):
        async with watching(gateway, path, colour="red", timeout_sec=1, **query) as stream:
            assert stream.response.status_code == 200
            assert stream.response.headers[IGNORED_HEADER] == "colour", path


@pytest.mark.usefixtures("run")
async def test_a_known_parameter_is_still_checked(gateway: httpx.AsyncClient) -> None:
    for path in ("/runs?limit=0", "/runs/counts?status=DONE", "/workers?limit=x", "/runs?limit="):
        answer = await gateway.get(f"{path}&colour=red")
        assert answer.status_code == 422, path
        assert len(answer.json()["problems"]) == 1, path
        assert answer.headers[IGNORED_HEADER] == "colour"


@pytest.mark.usefixtures("run")
async def test_a_read_that_prefers_strict_handling_is_refused(gateway: httpx.AsyncClient) -> None:
    for path in READS:
        query = "&" if "?" in path else "?"
        assert (await gateway.get(path, headers=STRICT)).status_code == 200, path
        answer = await gateway.get(f"{path}{query}colour=red", headers=STRICT)
        assert answer.status_code == 422, path
        (problem,) = answer.json()["problems"]
        assert problem["where"] == "colour"
        assert "is not a parameter" in problem["what"]
        assert IGNORED_HEADER not in answer.headers


async def test_the_list_of_dead_letters_refuses_unknown_parameters(
    gateway: httpx.AsyncClient,
) -> None:
    """It is the preview of a bulk redrive, which has the same filters."""
    answer = await gateway.get("/dlq?resaon=execution_error")
    assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0017")
    assert "cursor, limit, reason, run_id, tag" in answer.json()["detail"]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_request_that_changes_something_refuses_every_query_parameter(
    gateway: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    answer = await gateway.request(method, f"{path}?tag=gpu", json=body)
    assert (answer.status_code, answer.json()["err_id"]) in (
        (422, "ERR-PYOCO-0002"),
        (422, "ERR-PYOCO-0019"),
    )
    assert "tag: is not a parameter; this request has none" in answer.json()["detail"]


async def test_a_submission_ignores_query_parameters_unless_it_prefers_strict_handling(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    answer = await gateway.post("/runs?wait=true", json={"flow_name": "hello"})
    assert (answer.status_code, answer.headers[IGNORED_HEADER]) == (200, "wait")
    refused = await gateway.post("/runs?wait=true", json={"flow_name": "hello"}, headers=STRICT)
    assert (refused.status_code, refused.json()["err_id"]) == (422, "ERR-PYOCO-0002")
    assert len(await store.runs()) == 1


async def test_an_unknown_path_does_not_name_parameters(gateway: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/nowhere?a=b"), ("PUT", "/runs?a=b")):
        assert IGNORED_HEADER not in (await gateway.request(method, path)).headers


async def test_a_parameter_cannot_add_a_header(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/health?a%0d%0aSet-Cookie:%20x=y&%C3%A9%2C%00=1")
    assert answer.headers[IGNORED_HEADER] == "a%0D%0ASet-Cookie%3A%20x, %C3%A9%2C%00"
    assert "set-cookie" not in answer.headers


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=60))
@example(["x" * 500])
@example(["\U0001f600" * 50] * 5)
@example(["abc"] * 300)
def test_any_names_make_a_short_and_safe_header(names: list[str]) -> None:
    value = header_value(names)
    assert len(value) <= 1003
    assert value.isascii()
    assert value.isprintable()
    shown = value.split(", ")
    # `*` stands for names that are left out.
    shown = [each for each in shown if each != "*"]
    assert [unquote(each) for each in shown] == [name[:40] or '""' for name in names[: len(shown)]]
    assert len(shown) == len(names) or len(value) > 1000 - 480


def test_the_names_of_a_query_are_listed_once_in_their_order() -> None:
    rule = QueryRule("/x", frozenset({"a"}), is_strict=False, error=InvalidRequestError)
    assert rule.unknown_in(b"b=1&a=2&c&b=3&=4&d=") == ["b", "c", "", "d"]
