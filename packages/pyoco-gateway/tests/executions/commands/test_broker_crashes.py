"""Eight writers on one execution, through two gateways, while the broker is killed."""

import shutil
import uuid
from collections import Counter
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from conftest import uses_broker
from execution_requests import refusal
from executions.commands.command_client import STREAM, Commands
from executions.log.log_parts import CommandSide, execution_broker
from pyoco_protocol.executions.commits import CommitRecord, chain_start, commit_from
from pyoco_testkit.eventually import eventually
from pyoco_testkit.graph_documents import JsonObject, edges_of
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import StartGateway, Store

WRITERS = 8
TASKS = 4


def branches() -> JsonObject:
    """Return a graph with a chain of Tasks for each writer."""
    tasks = [[f"n{writer}-{number}" for number in range(TASKS)] for writer in range(WRITERS)]
    ids = [("start", "Start"), ("fork", "Fork"), ("join", "Join"), ("done", "Success")]
    nodes = [{"id": name, "type": kind} for name, kind in ids]
    nodes += [{"id": each, "type": "Task"} for chain in tasks for each in chain]
    edges = [*edges_of("start", "fork"), *edges_of("join", "done")]
    for chain in tasks:
        edges += edges_of("fork", *chain, "join")
    return {"nodes": nodes, "edges": edges}


class Writers:
    """Sends the commands of all writers, each until it is settled, and keeps the answers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.settled: dict[str, JsonObject] = {}
        self.repeats = 0

    def has_settled(self, commands: int) -> bool:
        """Whether so many commands are settled."""
        return len(self.settled) >= commands

    async def write(self, client: Commands, writer: int) -> None:
        """Execute the chain of one writer."""
        for number in range(TASKS):
            node = f"{self.path}/nodes/n{writer}-{number}"
            for rest in ("start", "progress", "wait", "resume", "success"):
                await self._settle(client, f"{node}/{rest}", {})

    async def _settle(self, client: Commands, path: str, body: JsonObject) -> None:
        key = uuid.uuid4().hex
        while True:
            try:
                answer = await client.post(path, body, key)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                answer = None
            if answer is not None:
                assert answer.is_success, answer.text
                self.settled[key] = answer.json()
                return
            self.repeats += 1
            await anyio.sleep(0.05)


async def test_a_gateway_follows_a_broker_that_is_set_back(
    nats_server: NatsServer, start_gateway: "StartGateway"
) -> None:
    """States, lists and idempotency keys are those of the restored log."""
    store_dir = nats_server.directory / "store"
    async with start_gateway(nats_server.url) as http:
        commands = Commands(http)
        path = await commands.done(await commands.created(), ("nodes/t/start", {}))
        await nats_server.stop()
        shutil.copytree(store_dir, nats_server.directory / "backup")
        await nats_server.start()
        await uses_broker(http)
        await commands.accepted(f"{path}/nodes/t/success", {}, "k")
        lost = await commands.created()
        await nats_server.stop()
        shutil.rmtree(store_dir)
        shutil.copytree(nats_server.directory / "backup", store_dir)
        await nats_server.start()
        await uses_broker(http)

        view = (await http.get(path)).json()
        assert (view["status"], view["seq"]) == ("ACTIVE", 10)
        assert refusal(await commands.post(f"{lost}/cancel")) == (404, "EXECUTION_NOT_FOUND")
        again = await commands.post(f"{path}/nodes/t/success", {}, "k")
        assert (again.status_code, "Idempotency-Replayed" in again.headers) == (202, False)
        assert (await http.get(f"{path}/events/verify")).json()["valid"] is True
        view = (await http.get(path)).json()
        assert view["status"] == "COMPLETED"
        await eventually(partial(listed, commands), listed_as(view))


async def test_no_commit_follows_one_of_a_stream_that_was_deleted(
    nats_server: NatsServer, start_gateway: "StartGateway", store: "Store"
) -> None:
    """The first commit of the new stream has the sequence of the one that a gateway remembers."""
    async with (
        start_gateway(nats_server.url) as first,
        start_gateway(nats_server.url) as second,
    ):
        commands, others = Commands(first), Commands(second)
        await commands.put_graph()
        request: tuple[str, JsonObject, str] = ("/executions", {"graphId": "g", "start": True}, "k")
        path = f"/executions/{(await commands.accepted(*request))['executionId']}"
        config = (await store.js.stream_info(STREAM)).config
        await store.js.delete_stream(STREAM)
        await store.js.add_stream(config)

        await others.accepted(*request)
        await commands.accepted(f"{path}/nodes/t/start")

        assert (await second.get(f"{path}/events/verify")).json()["valid"] is True


@pytest.mark.timeout(120)
async def test_no_command_is_lost_or_doubled_while_the_broker_is_killed(
    nats_server: NatsServer, start_gateway: "StartGateway", store: "Store"
) -> None:
    async with (
        start_gateway(nats_server.url) as first,
        start_gateway(nats_server.url) as second,
    ):
        clients = [Commands(first), Commands(second)]
        path = await clients[0].created(branches())
        writers = Writers(path)
        async with anyio.create_task_group() as tasks:
            for number in range(WRITERS):
                tasks.start_soon(writers.write, clients[number % 2], number)
            for settled in (20, 60, 100):
                await eventually(partial(writers.has_settled, settled), True, 60)
                nats_server.kill()
                await nats_server.start()
        assert writers.repeats > 0

        records = await checked_log(store, path)
        check_l09_one_winner_per_attempt(records)
        check_l11_liveness(records)
        check_l12_idempotency(records, writers.settled)
        views = [(await each.http.get(path)).json() for each in clients]
        assert views[0] == views[1]
        assert views[0]["status"] == "COMPLETED"
        await check_replay(nats_server, path, views[0])
        for client in clients:
            verified = await client.http.get(f"{path}/events/verify")
            assert verified.json()["valid"] is True
            await eventually(partial(listed, client), listed_as(views[0]))


async def checked_log(store: "Store", path: str) -> list[CommitRecord]:
    """Return the commits: every number is there once, and the chain holds."""
    execution_id = path.rpartition("/")[2]
    n, seq, previous = 0, 0, chain_start(execution_id)
    records = []
    for message in await store._messages(STREAM):
        body = message.data or b""
        record = commit_from(body)
        assert (record.n, record.first_seq, record.prev_hash) == (n + 1, seq + 1, previous)
        n, seq, previous = record.n, record.last_seq, sha256(body).hexdigest()
        records.append(record)
    return records


def check_l09_one_winner_per_attempt(records: list[CommitRecord]) -> None:
    events = [event for record in records for event in record.events]
    for kind in ("NODE_STARTED", "NODE_SUCCEEDED"):
        attempts = Counter(
            (event.payload["nodeId"], event.payload["attempt"])
            for event in events
            if event.type == kind
        )
        assert set(attempts.values()) == {1}


def check_l11_liveness(records: list[CommitRecord]) -> None:
    for record in records:
        assert bool(record.head["open"]) is (record.head["status"] == "ACTIVE")


def check_l12_idempotency(records: list[CommitRecord], settled: dict[str, JsonObject]) -> None:
    """Each key has one effect, and its answer is the one that the client got."""
    answers: dict[str, JsonObject] = {}
    for record in records:
        key = record.command.idempotency_key
        assert key is not None
        assert key not in answers
        assert record.answer is not None
        answers[key] = record.answer["body"]
    # A command without an effect is not stored: a report of progress may be one.
    applied = {key: body for key, body in settled.items() if body["effect"] == "APPLIED"}
    assert applied.items() <= answers.items()
    assert len(answers) == len(applied) + 1
    assert Counter(body["command"] for body in answers.values())["SucceedNode"] == WRITERS * TASKS


async def check_replay(nats_server: NatsServer, path: str, view: JsonObject) -> None:
    """A gateway that knows nothing but the log gives the same state."""
    async with execution_broker(nats_server.url) as broker:
        logged = await CommandSide(broker).replayed(path.rpartition("/")[2])
    assert (logged.state.seq, logged.last_hash) == (view["seq"], view["lastHash"])
    assert logged.state.status.value == view["status"]
    nodes = {node["nodeId"]: node["status"] for node in view["nodes"]}
    assert {name: node.status.value for name, node in logged.state.nodes.items()} == nodes


async def listed(client: Commands) -> list[JsonObject]:
    answer = await client.http.get("/executions")
    return list(answer.json().get("items", ()))


def listed_as(view: JsonObject) -> Any:
    """Return whether the list has one execution, as the replay gives it."""
    names = ("executionId", "status", "seq", "updatedAt", "endedAt", "graphVersion")

    def is_listed(items: list[JsonObject]) -> bool:
        return [{name: item.get(name) for name in names} for item in items] == [
            {name: view.get(name) for name in names}
        ]

    return is_listed
