"""Another tenant's executions are unknown to every command, and its keys are others."""

from typing import TYPE_CHECKING

import pytest

from execution_requests import refusal
from executions.commands.command_client import Commands, commits_of, serves_executions
from two_tenants import Pair, shown

if TYPE_CHECKING:
    from conftest import Store

COMMANDS = (
    "start",
    "cancel",
    "archive",
    *(
        f"nodes/t/{rest}"
        for rest in ("start", "progress", "wait", "resume-request", "resume", "success", "fail")
    ),
)
UNKNOWN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


@pytest.fixture
async def acme(pair: Pair) -> Commands:
    """Give a client of the first tenant."""
    return await serves_executions(Commands(pair.acme.http))


@pytest.fixture
def globex(pair: Pair) -> Commands:
    """Give a client of the second tenant."""
    return Commands(pair.globex.http)


@pytest.mark.parametrize("rest", COMMANDS)
async def test_an_execution_of_another_tenant_is_not_found(
    acme: Commands, globex: Commands, store: "Store", rest: str
) -> None:
    """The answer is that to an unknown id, byte for byte."""
    path = await acme.created()
    count = len(await commits_of(store, path))

    answer = await globex.post(f"{path}/{rest}", {}, "k")

    assert refusal(answer) == (404, "EXECUTION_NOT_FOUND")
    unknown = await globex.post(f"/executions/{UNKNOWN}/{rest}", {}, "k")
    own = path.rpartition("/")[2]
    ids = (
        answer.headers["X-Request-ID"],
        unknown.headers["X-Request-ID"],
        answer.headers["X-Correlation-Id"],
    )
    first, second = shown(answer, own, *ids), shown(unknown, UNKNOWN, *ids)
    assert (first[0], first[2]) == (second[0], second[2])
    assert len(await commits_of(store, path)) == count


async def test_a_replay_is_for_the_tenant_of_the_execution_only(
    acme: Commands, globex: Commands
) -> None:
    path = await acme.created()
    await acme.accepted(f"{path}/cancel", {}, "k")
    answer = await globex.post(f"{path}/cancel", {}, "k")
    assert refusal(answer) == (404, "EXECUTION_NOT_FOUND")
    assert "Idempotency-Replayed" not in answer.headers


async def test_the_same_key_of_two_tenants_makes_two_executions(
    acme: Commands, globex: Commands, store: "Store"
) -> None:
    ids = []
    for client in (acme, globex):
        await client.put_graph()
        ids.append((await client.accepted("/executions", {"graphId": "g"}, "k"))["executionId"])
    assert ids[0] != ids[1]
    tenants = [(await commits_of(store, f"/executions/{each}"))[0]["tenantId"] for each in ids]
    assert tenants == ["acme", "globex"]


async def test_a_graph_of_another_tenant_is_not_found(acme: Commands, globex: Commands) -> None:
    await acme.put_graph()
    answer = await globex.post("/executions", {"graphId": "g"})
    assert refusal(answer) == (404, "GRAPH_NOT_FOUND")
