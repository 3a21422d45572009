"""The families of executions on the metrics page."""

import re
from typing import Any

import httpx

from execution_requests import completed, created, post
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from two_tenants import Pair

Values = dict[str, float]

WAIT = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {"id": "ok", "type": "Wait"},
        {"id": "done", "type": "Success"},
    ],
    "edges": [{"from": "start", "to": "ok"}, {"from": "ok", "to": "done"}],
}


async def families(http: httpx.AsyncClient) -> Values:
    """Return the samples of executions, by the status or the name of the family."""
    page = (await http.get("/metrics")).text
    found = re.findall(r'^pyoco_execution(\w+?)(?:{status="(\w+)"})? (\S+)$', page, re.M)
    return {status or name: float(value) for name, status, value in found}


async def waiting(http: httpx.AsyncClient) -> None:
    assert (await http.put("/graphs/wait", json=WAIT)).is_success
    await post(http, "/executions", graphId="wait", start=True)


async def test_executions_waits_and_ready_tasks_are_counted(gateway: httpx.AsyncClient) -> None:
    await completed(gateway)
    await created(gateway)
    await waiting(gateway)

    counted = await eventually(lambda: families(gateway), lambda found: found.get("ACTIVE") == 2)
    age = counted.pop("_oldest_ready_task_seconds")
    assert counted == {
        "ACTIVE": 2,
        "COMPLETED": 1,
        "FAILED": 0,
        "CANCELED": 0,
        "_open_waits": 1,
        "_unreadable_commits": 0,
    }
    assert 0 <= age < 30
    # It grows without any commit.
    await eventually(
        lambda: families(gateway), lambda found: found["_oldest_ready_task_seconds"] > age
    )


async def test_a_tenant_sees_the_numbers_of_its_own_executions(pair: Pair) -> None:
    await created(pair.acme.http)
    await waiting(pair.acme.http)
    await completed(pair.globex.http)

    acme = await eventually(lambda: families(pair.acme.http), lambda found: "ACTIVE" in found)
    globex = await families(pair.globex.http)
    assert (acme["ACTIVE"], acme["COMPLETED"], acme["_open_waits"]) == (2, 0, 1)
    assert (globex["ACTIVE"], globex["COMPLETED"], globex["_open_waits"]) == (0, 1, 0)
    assert globex["_oldest_ready_task_seconds"] == 0


async def test_commits_that_cannot_be_read_are_counted(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.publish("pyoco.exec.damaged", b"not a commit")

    await eventually(lambda: families(gateway), lambda found: found.get("_unreadable_commits") == 1)


async def test_without_the_broker_only_the_numbers_of_this_gateway_are_left(
    gateway: httpx.AsyncClient, nats_server: NatsServer
) -> None:
    await eventually(lambda: families(gateway), lambda found: "ACTIVE" in found)
    await nats_server.stop()
    await eventually(lambda: families(gateway), {"_unreadable_commits": 0.0})
