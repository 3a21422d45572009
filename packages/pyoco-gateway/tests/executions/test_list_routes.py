"""`GET /executions`, `GET /waits` and `GET /ready-tasks` over HTTP."""

from typing import Any

import anyio
import httpx
import pytest

from execution_requests import completed, created, post, refusal
from key_admin import Keyed, knows
from pyoco_gateway.access.caller import KeyScope
from pyoco_protocol.http.executions import ExecutionPage, OpenNodePage
from pyoco_testkit.nats_server import NatsServer
from two_tenants import Pair

LISTS = ("/executions", "/waits", "/ready-tasks")


def approval(**wait: Any) -> dict[str, Any]:
    """Return a graph with one Wait."""
    return {
        "nodes": [
            {"id": "start", "type": "Start"},
            {"id": "ok", "type": "Wait", "wait": wait},
            {"id": "done", "type": "Success"},
        ],
        "edges": [{"from": "start", "to": "ok"}, {"from": "ok", "to": "done"}],
    }


async def waiting(http: httpx.AsyncClient) -> str:
    """Create an execution that waits; return its id."""
    graph = approval(prompt={"text": "Ship it?"}, timeoutSec=60, key="po-7")
    stored = await http.put("/graphs/approval", json=graph)
    assert stored.is_success, stored.text
    answer = await post(http, "/executions", graphId="approval", start=True)
    return str(answer["executionId"])


async def page(http: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    model = ExecutionPage if path.startswith("/executions") else OpenNodePage
    model.model_validate(answer.json())
    found: dict[str, Any] = answer.json()
    return found


def ids_in(found: dict[str, Any]) -> list[str]:
    return [item["executionId"] for item in found["items"]]


@pytest.mark.parametrize("path", LISTS)
async def test_an_empty_list_has_no_next_page(gateway: httpx.AsyncClient, path: str) -> None:
    found = await page(gateway, path)
    assert found == {"items": [], "nextCursor": None, **({} if path == LISTS[0] else {"total": 0})}


async def test_each_answered_command_is_in_the_lists(gateway: httpx.AsyncClient) -> None:
    path = await created(gateway, labels=["eu"])
    execution_id = path.rpartition("/")[2]

    assert ids_in(await page(gateway, "/executions?status=ACTIVE&label=eu")) == [execution_id]
    (task,) = (await page(gateway, "/ready-tasks"))["items"]
    assert (task["executionId"], task["nodeId"], task["attempt"]) == (execution_id, "t", 1)
    await post(gateway, f"{path}/nodes/t/start")
    assert (await page(gateway, "/ready-tasks"))["total"] == 0
    await post(gateway, f"{path}/nodes/t/success", output={"ok": True})
    (item,) = (await page(gateway, "/executions?status=COMPLETED&graphId=order"))["items"]
    assert item["counts"] == {"SUCCEEDED": 3, "CANCELED": 1}
    await post(gateway, f"{path}/archive")
    assert ids_in(await page(gateway, "/executions")) == []
    assert ids_in(await page(gateway, "/executions?archived=true")) == [execution_id]


async def test_a_list_is_read_page_by_page(gateway: httpx.AsyncClient) -> None:
    paths = [await completed(gateway) for _ in range(5)]
    shown: list[str] = []
    cursor = ""
    while True:
        found = await page(gateway, f"/executions?limit=2{cursor}")
        shown += ids_in(found)
        if found["nextCursor"] is None:
            break
        cursor = f"&cursor={found['nextCursor']}"
    assert [f"/executions/{each}" for each in reversed(shown)] == paths


async def test_a_wait_can_be_resumed_with_the_key_in_the_list(gateway: httpx.AsyncClient) -> None:
    """A head has room for 200 bytes of a key; a key has up to 200 characters."""
    key = "注文" * 100
    stored = await gateway.put("/graphs/approval", json=approval(key=key))
    assert stored.is_success, stored.text
    answer = await post(gateway, "/executions", graphId="approval", start=True)
    (item,) = (await page(gateway, "/waits"))["items"]
    assert item["waitKey"] == key
    path = f"/executions/{answer['executionId']}/nodes/ok/resume"
    await post(gateway, path, resumeKey=item["waitKey"])


async def test_a_wait_is_listed_with_its_prompt(gateway: httpx.AsyncClient) -> None:
    execution_id = await waiting(gateway)
    (item,) = (await page(gateway, "/waits?graphId=approval"))["items"]
    node = (await gateway.get(f"/executions/{execution_id}")).json()["nodes"][1]
    assert item == {
        "executionId": execution_id,
        "graphId": "approval",
        "nodeId": "ok",
        "since": node["waitingSince"],
        "attempt": 1,
        "waitKey": "po-7",
        "deadlineAt": node["deadlineAt"],
        "prompt": {"text": "Ship it?"},
    }
    await post(gateway, f"/executions/{execution_id}/nodes/ok/resume", resumeKey="po-7")
    assert (await page(gateway, "/waits"))["total"] == 0


async def test_a_long_poll_is_answered_by_a_task_that_becomes_ready(
    gateway: httpx.AsyncClient,
) -> None:
    found: list[dict[str, Any]] = []

    async def poll() -> None:
        found.append(await page(gateway, "/ready-tasks?waitSec=15"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            path = await created(gateway)
    assert ids_in(found[0]) == [path.rpartition("/")[2]]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1&limit=2", "cursor=x", "sort=id", "graphid=order", "graphId="]
)
async def test_an_invalid_query_is_refused_with_the_name_of_the_parameter(
    gateway: httpx.AsyncClient, path: str, query: str
) -> None:
    answer = await gateway.get(f"{path}?{query}")
    assert refusal(answer) == (422, "INVALID_REQUEST")
    assert query.partition("=")[0] in answer.text


async def test_an_invalid_query_names_all_invalid_parameters(gateway: httpx.AsyncClient) -> None:
    answer = await gateway.get("/executions?status=DONE&limit=x&createdAfter=2026-11-18")
    assert refusal(answer) == (422, "INVALID_REQUEST")
    assert all(name in answer.text for name in ("status", "limit", "createdAfter"))


@pytest.mark.parametrize(
    ("path", "other"), [("/waits", "waitSec=1"), ("/ready-tasks", "approver=a")]
)
async def test_a_parameter_of_the_other_list_is_refused(
    gateway: httpx.AsyncClient, path: str, other: str
) -> None:
    assert refusal(await gateway.get(f"{path}?{other}")) == (422, "INVALID_REQUEST")


async def test_a_tenant_sees_its_own_executions_only(pair: Pair) -> None:
    path = await created(pair.acme.http)
    await waiting(pair.acme.http)
    for each, found in (("/executions", 2), ("/waits", 1), ("/ready-tasks", 1)):
        assert len((await page(pair.acme.http, each))["items"]) == found
        assert (await page(pair.globex.http, each))["items"] == []
    cursor = (await page(pair.acme.http, "/executions?limit=1"))["nextCursor"]
    answer = await pair.globex.http.get(f"/executions?cursor={cursor}")
    assert refusal(answer) == (422, "INVALID_REQUEST")
    assert path.rpartition("/")[2] not in answer.text


async def test_the_actor_of_a_key_finds_what_it_may_approve(keyed: Keyed) -> None:
    http, key_admin = keyed
    admin = await key_admin.issue(KeyScope.ADMIN)
    await knows(http, admin)
    http.headers.update(admin.headers)
    await http.put("/graphs/two", json=approval(approvers=["ann", "bob"], approvals=2))
    answer = await post(http, "/executions", graphId="two", start=True)

    found = await page(http, "/waits?approver=bob")
    assert ids_in(found) == [answer["executionId"]]
    assert found["items"][0]["approvals"] == {"needed": 2, "given": 0}
    assert (await page(http, "/waits?approver=cho"))["total"] == 0


@pytest.mark.parametrize("path", LISTS)
async def test_lists_answer_503_without_the_broker(
    gateway: httpx.AsyncClient, nats_server: NatsServer, path: str
) -> None:
    await nats_server.stop()
    answer = await gateway.get(path)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] in ("BROKER_UNAVAILABLE", "INDEX_NOT_READY")
    assert int(answer.headers["Retry-After"]) > 0
