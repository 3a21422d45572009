"""`X-Idempotency-Key`: each row of the table of cases, through one gateway or two."""

import json
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest

from execution_requests import refusal
from executions.commands.command_client import LINE, TASK, Commands, commits_of, outcome, reason
from pyoco_testkit.graph_documents import JsonObject, forked, line
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway, Store

REPLAYED = "Idempotency-Replayed"


async def sent_at_once(
    clients: list[Commands], path: str, body: JsonObject, key: str, times: int = 50
) -> list[httpx.Response]:
    """Send the same request many times at once, through all clients."""
    answers: list[httpx.Response] = []

    async def send(client: Commands) -> None:
        answers.append(await client.post(path, body, key))

    async with anyio.create_task_group() as tasks:
        for number in range(times):
            tasks.start_soon(send, clients[number % len(clients)])
    return answers


@pytest.mark.parametrize("rest", ["nodes/t/start", "cancel", "start"])
async def test_l12_fifty_requests_with_one_key_at_two_gateways_make_one_commit(
    commands: Commands,
    start_gateway: "StartGateway",
    nats_server: NatsServer,
    store: "Store",
    rest: str,
) -> None:
    path = await commands.created(start=rest != "start")
    before = len(await commits_of(store, path))
    async with start_gateway(nats_server.url) as other:
        answers = await sent_at_once([commands, Commands(other)], f"{path}/{rest}", {}, "k")

    assert Counter(each.status_code for each in answers) == {202: 1, 200: 49}
    assert len({each.content for each in answers}) == 1
    assert sum(REPLAYED in each.headers for each in answers) == 49
    assert len(await commits_of(store, path)) == before + 1


async def test_l12_fifty_creations_with_one_key_at_two_gateways_make_one_execution(
    commands: Commands, start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    await commands.put_graph()
    body = {"graphId": "g", "start": True}
    async with start_gateway(nats_server.url) as other:
        answers = await sent_at_once([commands, Commands(other)], "/executions", body, "k")

    assert Counter(each.status_code for each in answers) == {202: 1, 200: 49}
    assert len({each.content for each in answers}) == 1
    assert sum(REPLAYED in each.headers for each in answers) == 49
    assert len(await store._messages("PYOCO_EXECUTIONS")) == 1


async def test_the_same_key_with_another_body_is_refused(
    commands: Commands, store: "Store"
) -> None:
    path = await commands.created()
    await commands.accepted(f"{path}/nodes/t/start", {"workerId": "w1"}, "k")
    for body in ({"workerId": "w2"}, {}, {"workerId": "w1", "attempt": 1}):
        answer = await commands.post(f"{path}/nodes/t/start", body, "k")
        assert refusal(answer) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert len(await commits_of(store, path)) == 2


@pytest.mark.parametrize("body", [{"graphId": "g"}, {"graphId": "none"}, {"graphId": "strict"}])
async def test_a_creation_with_the_same_key_and_another_body_is_refused(
    commands: Commands, store: "Store", body: JsonObject
) -> None:
    """Also a creation that would be refused for another reason."""
    await commands.put_graph()
    await commands.put_graph(line(TASK, inputSchema={"required": ["n"]}), "strict")
    await commands.accepted("/executions", {"graphId": "g", "input": {"n": 1}}, "k")
    assert refusal(await commands.post("/executions", body, "k")) == (
        409,
        "IDEMPOTENCY_KEY_REUSED",
    )
    assert len(await store._messages("PYOCO_EXECUTIONS")) == 1


async def test_the_same_key_at_another_path_is_another_request(
    commands: Commands, store: "Store"
) -> None:
    path = await commands.created(forked(TASK, {"id": "u", "type": "Task"}))
    other = await commands.created(forked(TASK, {"id": "u", "type": "Task"}))
    for route in (
        f"{path}/nodes/t/start",
        f"{path}/nodes/u/start",
        f"{other}/nodes/t/start",
        f"{path}/nodes/t/success",
        f"{path}/cancel",
    ):
        answer = await commands.post(route, {}, "k")
        assert (answer.status_code, answer.json()["effect"]) == (202, "APPLIED")
    assert len(await commits_of(store, path)) == 5


async def test_a_rejected_request_is_decided_anew(commands: Commands, store: "Store") -> None:
    path = await commands.created()
    assert reason(await commands.post(f"{path}/nodes/t/success", {}, "k")) == "NODE_NOT_RUNNING"
    # Another body is no conflict either: nothing was stored.
    await commands.accepted(f"{path}/nodes/t/start")
    answer = await commands.post(f"{path}/nodes/t/success", {"output": {}}, "k")
    assert (answer.status_code, REPLAYED in answer.headers) == (202, False)
    assert len(await commits_of(store, path)) == 3


async def test_a_request_without_an_effect_is_decided_anew(
    commands: Commands, store: "Store"
) -> None:
    path = await commands.done(
        await commands.created(), ("nodes/t/start", {}), ("nodes/t/wait", {"waitKey": "k"})
    )
    route = f"{path}/nodes/t/wait"
    first = await commands.post(route, {"waitKey": "k"}, "k")
    assert (first.status_code, outcome(first)) == (200, "NONE")
    await commands.accepted(f"{path}/nodes/t/resume", {"resumeKey": "k"})
    again = await commands.post(route, {"waitKey": "k"}, "k")
    assert (again.status_code, outcome(again)) == (202, "APPLIED")
    assert (await commits_of(store, path))[-1]["command"]["idempotencyKey"] == "k"


@pytest.mark.parametrize("bad", [{"x": 1}, {"output": "text"}, {"output": {"a": "x" * 70_000}}])
async def test_a_request_that_is_no_command_does_not_use_its_key(
    commands: Commands, bad: JsonObject
) -> None:
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    assert (await commands.post(f"{path}/nodes/t/success", bad, "k")).status_code in (413, 422)
    assert (await commands.post(f"{path}/nodes/t/success", {}, "k")).status_code == 202


async def test_the_answer_stays_whatever_has_happened_since(commands: Commands) -> None:
    path = await commands.created()
    first = await commands.post(f"{path}/nodes/t/start", {}, "k")
    await commands.done(path, ("nodes/t/success", {}), ("archive", {}))
    again = await commands.post(f"{path}/nodes/t/start", {}, "k")
    assert (again.status_code, again.content) == (200, first.content)
    # The same command under a new key is rejected.
    assert reason(await commands.post(f"{path}/nodes/t/start")) == "EXECUTION_TERMINAL"


async def test_a_key_is_known_to_other_gateways_and_after_restarts(
    start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        commands = Commands(gateway)
        path = await commands.created()
        first = await commands.post(f"{path}/nodes/t/start", {}, "k")
        creation = await commands.post("/executions", {"graphId": "g"}, "c")
    nats_server.kill()
    await nats_server.restart()
    async with start_gateway(nats_server.url) as gateway:
        commands = Commands(gateway)
        for earlier, (route, body, key) in (
            (first, (f"{path}/nodes/t/start", {}, "k")),
            (creation, ("/executions", {"graphId": "g"}, "c")),
        ):
            again = await commands.post(route, body, key)
            assert (again.status_code, again.content) == (200, earlier.content)
            assert again.headers[REPLAYED] == "true"


SAME = [
    b'{"output":{"a":1,"b":"\\u4e16"}}',
    '{ "output": {"b": "世",\n "a": 1} }'.encode(),
]
OTHER = [
    b'{"output":{"a":1.0,"b":"\\u4e16"}}',
    b'{"output":{"a":1,"b":"\\u4e16","c":null}}',
    b'{"output":{"a":"1","b":"\\u4e16"}}',
]


async def test_bodies_are_compared_as_values(commands: Commands) -> None:
    """By their canonical JSON, so the order of fields does not matter."""
    path = await commands.done(await commands.created(), ("nodes/t/start", {}))
    headers = {"X-Idempotency-Key": "k", "Content-Type": "application/json"}

    async def send(body: bytes) -> httpx.Response:
        return await commands.http.post(f"{path}/nodes/t/success", content=body, headers=headers)

    answers = [await send(body) for body in SAME]
    assert [each.status_code for each in answers] == [202, 200]
    for body in OTHER:
        assert refusal(await send(body)) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_a_creation_is_replayed_although_the_latest_graph_refuses_it(
    commands: Commands,
) -> None:
    await commands.put_graph()
    body = {"graphId": "g", "input": {"n": "seven"}}
    first = await commands.post("/executions", body, "k")
    strict = {"properties": {"n": {"type": "number"}}}
    await commands.put_graph(line(TASK, inputSchema=strict))
    assert refusal(await commands.post("/executions", body, "other")) == (422, "INPUT_INVALID")

    again = await commands.post("/executions", body, "k")

    assert (again.status_code, again.content) == (200, first.content)
    assert again.json()["graphVersion"] == 1


@pytest.mark.parametrize("record", [b"hello", b'{"v":2}'])
async def test_a_creation_is_replayed_although_the_latest_graph_is_damaged(
    commands: Commands, store: "Store", record: bytes
) -> None:
    await commands.put_graph()
    first = await commands.post("/executions", {"graphId": "g"}, "k")
    await store.js.publish("pyoco.graph.default.g", record)
    assert refusal(await commands.post("/executions", {"graphId": "g"})) == (500, "GRAPH_CORRUPT")
    again = await commands.post("/executions", {"graphId": "g"}, "k")
    assert (again.status_code, again.content) == (200, first.content)


async def test_a_key_is_not_shared_with_runs(commands: Commands) -> None:
    await commands.put_graph()
    headers = {"X-Idempotency-Key": "k"}
    run = await commands.http.post("/runs", json={"flow_name": "f"}, headers=headers)
    created = await commands.post("/executions", {"graphId": "g"}, "k")
    assert (run.status_code, created.status_code) == (200, 202)


async def test_numbers_of_any_size_survive(commands: Commands, store: "Store") -> None:
    """A value that came back changed would give another hash for the same input."""
    values = {"big": 10**40, "small": 5e-324, "float": 1e22, "minus": -0.0, "one": 1, "1.0": 1.0}
    path = await commands.created(LINE, input=values)
    (commit,) = await commits_of(store, path)
    assert json.dumps(commit["events"][0]["payload"]["input"]) == json.dumps(values)
