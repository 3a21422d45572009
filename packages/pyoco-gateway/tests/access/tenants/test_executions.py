"""Executions and graphs of another tenant answer 404, byte for byte like an unknown id."""

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import pytest

from idor_ways import EXECUTION_WAYS, GRAPH_WAYS, REQUEST_ID, Ask, Route
from pyoco_testkit.eventually import eventually
from two_tenants import Pair, Tenant, asked_of_broker, shown

GRAPH: Final[dict[str, Any]] = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {"id": "fork", "type": "Fork"},
        {"id": "t", "type": "Task"},
        {"id": "w", "type": "Wait"},
        {"id": "join", "type": "Join"},
        {"id": "done", "type": "Success"},
    ],
    "edges": [
        {"from": "start", "to": "fork"},
        {"from": "fork", "to": "t"},
        {"from": "fork", "to": "w"},
        {"from": "t", "to": "join"},
        {"from": "w", "to": "join"},
        {"from": "join", "to": "done"},
    ],
}
HEADERS: Final = {**REQUEST_ID, "X-Correlation-Id": "the-same-for-all"}


@dataclass
class Keys:
    """Idempotency keys; each is used once."""

    used: int = field(default=0)

    def next(self) -> dict[str, str]:
        self.used += 1
        return {"X-Idempotency-Key": f"k-{self.used}"}


KEYS: Final = Keys()


async def create(tenant: Tenant, *, labels: tuple[str, ...] = ()) -> str:
    """Store the graph and create an execution of it; return its id."""
    stored = await tenant.http.put("/graphs/secret-graph", json=GRAPH)
    assert stored.status_code in (200, 201), stored.text
    body = {"graphId": "secret-graph", "start": True, "input": {"of": "acme"}, "labels": labels}
    answer = await tenant.http.post("/executions", json=body, headers=KEYS.next())
    assert answer.status_code == 202, answer.text
    return str(answer.json()["executionId"])


async def ask(tenant: Tenant, route: Route, ids: dict[str, str], way: Ask) -> httpx.Response:
    method, path = route
    key = {"X-Idempotency-Key": "the-same-key"} if method == "POST" else {}
    return await tenant.http.request(
        method,
        path.format(node_id="t", n="1", version="1", **ids),
        params=way.query,
        headers={**HEADERS, **key, **way.headers},
        json=None if method == "GET" else way.json or {},
    )


async def commits(pair: Pair) -> int:
    return (await pair.store.js.stream_info("PYOCO_EXECUTIONS")).state.last_seq


@pytest.mark.parametrize("route", EXECUTION_WAYS, ids=" ".join)
async def test_another_tenants_execution_answers_like_an_unknown_id(
    pair: Pair, route: Route
) -> None:
    theirs, nothing = await create(pair.acme), str(uuid.uuid4())
    # The gateway knows the tenant from what its watch has delivered.
    await eventually(lambda: listed(pair.acme), [theirs])
    before = await commits(pair)

    async with asked_of_broker(pair.store) as asked_of:
        for way in EXECUTION_WAYS[route]:
            await asked_of()
            answer = await ask(pair.globex, route, {"execution_id": theirs}, way)
            requests = await asked_of()
            unknown = await ask(pair.globex, route, {"execution_id": nothing}, way)
            assert unknown.status_code == 404
            assert shown(answer, theirs) == shown(unknown, nothing), way
            # Both take one broker request, so that response times do not differ either, and the
            # commits of another tenant are not read.
            assert len(requests) == len(await asked_of()) == 1
            assert theirs not in requests[0]
    assert await commits(pair) == before

    if not route[1].endswith("/stream"):
        owned = await ask(pair.acme, route, {"execution_id": theirs}, EXECUTION_WAYS[route][0])
        assert owned.status_code in (200, 202, 409), owned.text


async def test_the_owner_of_an_execution_gets_its_stream(pair: Pair) -> None:
    own = await create(pair.acme)

    async with pair.acme.http.stream("GET", f"/executions/{own}/stream") as answer:
        assert answer.status_code == 200


async def listed(tenant: Tenant, path: str = "/executions") -> list[str]:
    items = (await tenant.get(path))["items"]
    return [str(item["executionId"]) for item in items]


@pytest.mark.parametrize("route", GRAPH_WAYS, ids=" ".join)
async def test_another_tenants_graph_answers_like_an_unknown_one(pair: Pair, route: Route) -> None:
    await create(pair.acme)

    async with asked_of_broker(pair.store) as asked_of:
        for way in GRAPH_WAYS[route]:
            await asked_of()
            answer = await ask(pair.globex, route, {"graph_id": "secret-graph"}, way)
            requests = [each.replace("secret-graph", "<id>") for each in await asked_of()]
            unknown = await ask(pair.globex, route, {"graph_id": "nothing-here"}, way)
            assert unknown.status_code == 404
            assert shown(answer, "secret-graph") == shown(unknown, "nothing-here"), way
            assert requests == [each.replace("nothing-here", "<id>") for each in await asked_of()]

    owned = await ask(pair.acme, route, {"graph_id": "secret-graph"}, GRAPH_WAYS[route][0])
    assert owned.status_code == 200, owned.text


async def test_a_graph_of_the_same_id_is_another_graph_for_each_tenant(pair: Pair) -> None:
    await create(pair.acme)

    stored = await pair.globex.http.put("/graphs/secret-graph", json=GRAPH)

    assert (stored.status_code, stored.json()["version"]) == (201, 1)


@pytest.mark.parametrize("path", ["/executions", "/waits", "/ready-tasks"])
async def test_lists_show_own_executions_only(pair: Pair, path: str) -> None:
    theirs, own = await create(pair.acme), await create(pair.globex)

    await eventually(lambda: listed(pair.acme, path), [theirs])
    await eventually(lambda: listed(pair.globex, path), [own])


async def test_the_list_of_graphs_shows_own_graphs_only(pair: Pair) -> None:
    await create(pair.acme)

    assert (await pair.globex.get("/graphs"))["items"] == []


async def test_the_same_key_of_two_tenants_creates_two_executions(pair: Pair) -> None:
    for tenant in (pair.acme, pair.globex):
        await tenant.http.put("/graphs/secret-graph", json=GRAPH)
    key = {"X-Idempotency-Key": "order-1"}
    body = {"graphId": "secret-graph"}

    answers = [
        await tenant.http.post("/executions", json=body, headers=key)
        for tenant in (pair.acme, pair.globex)
    ]

    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["executionId"] for answer in answers}) == 2


async def test_metrics_count_own_executions_only(pair: Pair) -> None:
    await create(pair.acme)
    await eventually(lambda: active_in(pair.acme), 1.0)

    assert await active_in(pair.globex) == 0.0


async def active_in(tenant: Tenant) -> float | None:
    page = (await tenant.http.get("/metrics")).text
    name = 'pyoco_executions_total{status="ACTIVE"} '
    found = [line.removeprefix(name) for line in page.splitlines() if line.startswith(name)]
    return float(found[0]) if found else None
