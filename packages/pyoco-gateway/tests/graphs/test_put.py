"""Concurrent writers of one graph, and answers that are lost."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import anyio
import httpx
import pytest

from conftest import BrokerLink, Store
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.graphs.documents import ReadDocument
from pyoco_gateway.graphs.parse_document import ParseDocument
from pyoco_gateway.graphs.put import PutGraph, PutResult
from pyoco_gateway.graphs.rules import GRAPH_RULES
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.graph_versions import GraphVersions
from pyoco_protocol.jetstream.requests import UnknownOutcomeError
from pyoco_protocol.jetstream.subject_log import SubjectLog
from pyoco_protocol.problems import VersionMismatchError
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import line
from pyoco_testkit.nats_server import NatsServer
from two_tenants import Pair

SUBJECT = "pyoco.graph."
Link = tuple[BrokerLink, str]


def document(title: str) -> bytes:
    return json.dumps(line(title=title)).encode()


def put_with(broker: Broker) -> PutGraph:
    return PutGraph(GraphVersions(broker, Names()), ReadDocument(ParseDocument()))


async def put(
    graphs: PutGraph, title: str, *, expected: int | None = None, by: str = "ann"
) -> PutResult:
    return await graphs(
        "acme", "intake", document(title), b"application/json", by=by, expected=expected
    )


async def stored(broker: Broker) -> list[dict[str, Any]]:
    versions = GraphVersions(broker, Names())
    return [json.loads(each.body) async for each in versions.versions("acme", "intake")]


async def count(broker: Broker) -> int:
    return len(await stored(broker))


async def test_writers_at_once_get_a_version_each(broker: Broker) -> None:
    graphs = put_with(broker)
    numbers: list[int] = []

    async def write(title: str) -> None:
        numbers.append((await put(graphs, title)).version)

    async with anyio.create_task_group() as tasks:
        for i in range(20):
            tasks.start_soon(write, f"title {i}")
    found = await stored(broker)
    assert sorted(numbers) == [each["version"] for each in found] == list(range(1, 21))
    assert {each["document"]["title"] for each in found} == {f"title {i}" for i in range(20)}


async def test_writers_of_the_same_document_at_once_get_the_same_version(broker: Broker) -> None:
    graphs = put_with(broker)
    results: list[PutResult] = []

    async def write(by: str) -> None:
        results.append(await put(graphs, "same", by=by))

    async with anyio.create_task_group() as tasks:
        for i in range(10):
            tasks.start_soon(write, f"actor {i}")
    assert [each.version for each in results] == [1] * 10
    assert sum(each.is_new for each in results) == 1
    assert len(await stored(broker)) == 1


async def test_of_writers_of_the_same_bytes_at_once_one_stores_a_new_version(
    broker: Broker,
) -> None:
    graphs = replace(put_with(broker), clock=lambda: 1_800_000_000.0)
    are_new: list[bool] = []

    async def write() -> None:
        are_new.append((await put(graphs, "same")).is_new)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(write)
    assert sorted(are_new) == [False] * 19 + [True]


async def test_of_writers_that_expect_the_same_version_one_wins(broker: Broker) -> None:
    graphs = put_with(broker)
    await put(graphs, "first")
    won: list[int] = []
    lost: list[int] = []

    async def write(title: str) -> None:
        try:
            won.append((await put(graphs, title, expected=1)).version)
        except VersionMismatchError as error:
            lost.append(int(str(error.details["latest"])))

    async with anyio.create_task_group() as tasks:
        for i in range(10):
            tasks.start_soon(write, f"title {i}")
    assert (won, lost) == ([2], [2] * 9)


# --- lost messages and answers


@pytest.fixture
async def far(
    broker: Broker, broker_link: Link, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[PutGraph, BrokerLink]]:
    """Give a writer that waits for answers only briefly, and the link that may lose them."""
    hurried = {**(SubjectLog.append.__kwdefaults__ or {}), "timeout_sec": 0.5}
    monkeypatch.setattr(SubjectLog.append, "__kwdefaults__", hurried)
    link, address = broker_link
    async with open_broker(BrokerSettings(nats_url=address), name="tests") as cut_off:
        await cut_off.wait_until_up()
        yield put_with(cut_off), link


async def test_a_version_whose_answer_was_lost_is_found_by_reading(
    far: tuple[PutGraph, BrokerLink], broker: Broker
) -> None:
    graphs, link = far
    link.lose_answers = (SUBJECT,)
    result = await put(graphs, "first")
    assert (result.version, result.is_new) == (1, True)
    assert len(await stored(broker)) == 1
    assert len(link.lost) == 1


async def test_a_message_that_was_lost_is_sent_again(
    far: tuple[PutGraph, BrokerLink], broker: Broker
) -> None:
    graphs, link = far
    link.swallow = (SUBJECT,)
    results: list[PutResult] = []

    async def write() -> None:
        results.append(await put(graphs, "first"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await eventually(lambda: len(link.lost), 1)
        link.swallow = ()
    assert [(each.version, each.is_new) for each in results] == [(1, True)]
    assert len(await stored(broker)) == 1


async def test_without_any_answer_the_outcome_is_unknown_and_a_repeat_settles_it(
    far: tuple[PutGraph, BrokerLink], broker: Broker
) -> None:
    graphs, link = far
    link.swallow = (SUBJECT,)
    with pytest.raises(UnknownOutcomeError):
        await put(graphs, "first")
    assert len(link.lost) == 3
    link.swallow = ()
    assert (await put(graphs, "first")).version == 1
    assert (await put(graphs, "first")).is_new is False
    assert len(await stored(broker)) == 1


@pytest.mark.parametrize("is_lost", [True, False])
async def test_another_writer_may_be_next_while_the_answer_is_awaited(
    far: tuple[PutGraph, BrokerLink], broker: Broker, is_lost: bool
) -> None:
    graphs, link = far
    if is_lost:
        link.swallow = (SUBJECT,)
    else:
        link.lose_answers = (SUBJECT,)
    results: list[PutResult] = []

    async def write() -> None:
        results.append(await put(graphs, "mine"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await eventually(lambda: len(link.lost), 1)
        if not is_lost:
            await eventually(lambda: count(broker), 1)
        await put(put_with(broker), "other")
        link.swallow = link.lose_answers = ()
    titles = [each["document"]["title"] for each in await stored(broker)]
    assert titles == (["other", "mine"] if is_lost else ["mine", "other"])
    assert [(each.version, each.is_new) for each in results] == [(2 if is_lost else 1, True)]


async def test_no_version_is_skipped_while_the_broker_restarts(
    gateway: httpx.AsyncClient, nats_server: NatsServer, store: Store
) -> None:
    answers: list[httpx.Response] = []

    async def write(title: str) -> None:
        for _ in range(100):
            answer = await gateway.put("/graphs/intake", json=line(title=title))
            answers.append(answer)
            if answer.status_code in (HTTPStatus.OK, HTTPStatus.CREATED):
                return
            await anyio.sleep(0.1)

    async with anyio.create_task_group() as tasks:
        for i in range(6):
            tasks.start_soon(write, f"title {i}")
        await nats_server.restart()
    assert {each.status_code for each in answers} <= {200, 201, 503}
    await eventually(lambda: _status(gateway, "/graphs/intake"), 200)
    page = (await gateway.get("/graphs/intake/versions")).json()
    versions = [each["version"] for each in page["items"]]
    assert versions == list(range(len(versions), 0, -1))
    assert {each["title"] for each in page["items"]} == {f"title {i}" for i in range(6)}


async def _status(http: httpx.AsyncClient, path: str) -> int:
    return (await http.get(path)).status_code


# --- who stored a version


async def test_a_version_names_the_actor_that_stored_it(pair: Pair) -> None:
    held = await pair.key_admin.issue(KeyScope.GRAPHS_WRITE, tenant="acme")
    await pair.key_admin.change(held, name="deployer")
    named = httpx.AsyncClient(base_url=pair.acme.http.base_url, headers=held.headers)
    async with named as http:
        await eventually(lambda: _put_status(http), 201)
    assert (await pair.acme.get("/graphs/intake"))["by"] == "deployer"
    assert (await pair.acme.http.put("/graphs/intake", json=line(title="by id"))).is_success
    assert (await pair.acme.get("/graphs/intake"))["by"] == pair.acme.key.record.key_id


async def _put_status(http: httpx.AsyncClient) -> int:
    return (await http.put("/graphs/intake", json=line())).status_code


async def test_graphs_of_the_same_id_in_two_tenants_are_two_graphs(pair: Pair) -> None:
    for tenant in (pair.acme, pair.globex):
        for i in range(2):
            answer = await tenant.http.put("/graphs/intake", json=line(title=f"{tenant.name} {i}"))
            assert (answer.status_code, answer.json()["version"]) == (201, i + 1)
    for tenant in (pair.acme, pair.globex):
        assert (await tenant.get("/graphs/intake/versions/1"))["title"] == f"{tenant.name} 0"
        assert [each["title"] for each in (await tenant.get("/graphs"))["items"]] == [
            f"{tenant.name} 1"
        ]


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("PUT", "/graphs/intake", KeyScope.GRAPHS_WRITE),
        ("POST", "/graphs/validate", KeyScope.GRAPHS_WRITE),
        ("GET", "/graphs", KeyScope.EXECUTIONS_READ),
        ("GET", "/graphs/intake", KeyScope.EXECUTIONS_READ),
        ("GET", "/graphs/intake/versions", KeyScope.EXECUTIONS_READ),
        ("GET", "/graphs/intake/versions/1", KeyScope.EXECUTIONS_READ),
    ],
)
def test_each_route_needs_its_scope(method: str, path: str, scope: KeyScope) -> None:
    template = path.replace("intake", "{graph_id}").replace("1", "{version}")
    assert GRAPH_RULES[template].methods[method] is scope
