"""Failures of the server: their codes, and when to try again."""

import json
import uuid
from typing import TYPE_CHECKING

import httpx
import pytest

from execution_requests import refusal
from executions.commands.command_client import Commands, commits_of
from pyoco_gateway.executions import send_command
from pyoco_gateway.executions.log import appender, commit_plan
from pyoco_protocol.executions.commits import chain_start
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

if TYPE_CHECKING:
    from conftest import BrokerLink, StartGateway, Store


def subject_of(path: str) -> str:
    return f"pyoco.exec.{path.rpartition('/')[2]}"


def assert_later(answer: httpx.Response, code: str) -> None:
    """The client is asked to repeat the request."""
    assert refusal(answer) == (503, code), answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["error"]["details"]["errId"].startswith("ERR-PYOCO-")


DAMAGES = {
    "500 LOG_CORRUPT": (b"hello", 500, "LOG_CORRUPT"),
    "503 LOG_TOO_NEW": (b'{"v":2}', 503, "LOG_TOO_NEW"),
}


@pytest.mark.parametrize(("message", "status", "code"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_log_that_cannot_be_read(
    commands: Commands, store: "Store", message: bytes, status: int, code: str
) -> None:
    """It concerns one execution only."""
    path, other = await commands.created(), await commands.created()
    await store.js.publish(subject_of(path), message)
    for rest in ("cancel", "nodes/t/start", "nodes/t/success"):
        answer = await commands.post(f"{path}/{rest}")
        assert refusal(answer) == (status, code)
        assert ("Retry-After" in answer.headers) is (status == 503)
    await commands.done(other, ("nodes/t/start", {}), ("nodes/t/success", {}))


async def test_500_graph_corrupt(commands: Commands, store: "Store") -> None:
    """The log names another version of the graph than the stream has there."""
    path = await commands.created()
    (commit,) = await commits_of(store, path)
    execution_id = str(uuid.uuid4())
    commit |= {"executionId": execution_id, "prevHash": chain_start(execution_id)}
    commit["events"][0]["payload"]["graphHash"] = "0" * 64
    await store.js.publish(f"pyoco.exec.{execution_id}", json.dumps(commit).encode())

    answer = await commands.post(f"/executions/{execution_id}/cancel")

    assert refusal(answer) == (500, "GRAPH_CORRUPT")


async def test_503_execution_busy(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await commands.created()
    monkeypatch.setattr(send_command, "_MAX_ROUNDS", 0)
    answer = await commands.post(f"{path}/cancel")
    assert_later(answer, "EXECUTION_BUSY")
    assert answer.headers["Retry-After"] == "1"


async def test_503_outcome_unknown(
    broker_link: tuple["BrokerLink", str],
    start_gateway: "StartGateway",
    store: "Store",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A repeat settles it: the command was committed."""
    monkeypatch.setattr(appender, "REQUEST_TIMEOUT_SEC", 0.2)
    monkeypatch.setattr(commit_plan, "_SETTLE_SEC", 0.5)
    link, url = broker_link
    async with start_gateway(url) as http:
        commands = Commands(http)
        path = await commands.created()
        link.lose_answers = ("pyoco.exec.",)
        assert_later(await commands.post(f"{path}/nodes/t/start", {}, "k"), "OUTCOME_UNKNOWN")
        link.lose_answers = ()
        again = await commands.post(f"{path}/nodes/t/start", {}, "k")
        assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert len(await commits_of(store, path)) == 2


async def test_503_broker_unavailable(commands: Commands, nats_server: NatsServer) -> None:
    path = await commands.created()
    nats_server.kill()

    async def answered() -> int:
        return (await commands.post(f"{path}/cancel")).status_code

    await eventually(answered, 503)
    for route, body in ((f"{path}/nodes/t/start", {}), ("/executions", {"graphId": "g"})):
        assert_later(await commands.post(route, body), "BROKER_UNAVAILABLE")
    await nats_server.start()
    # The state that the gateway still has is confirmed, and used.
    await eventually(answered, httpx.codes.ACCEPTED)
