"""A gateway on a broker with the permissions of a release before executions."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from conftest import StartGateway
from guarded_broker import guarded_broker, without_executions
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

Gateway = tuple[httpx.AsyncClient, NatsServer]

DENIED = "the broker denied publishing on $JS.API.STREAM.INFO.PYOCO_EXECUTIONS to pyoco-gateway"


@pytest.fixture
async def gateway(
    tmp_path: Path, start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Gateway]:
    """Give a gateway that serves runs, and its broker."""
    monkeypatch.chdir(tmp_path)
    config, logins = guarded_broker(tmp_path)
    config.write_text(without_executions(config.read_text()))
    async with (
        NatsServer(tmp_path / "nats", config_file=config) as server,
        start_gateway(server.url, wait=False, **logins["gateway"]) as http,
    ):

        async def listed() -> int:
            return (await http.get("/runs")).status_code

        await eventually(listed, httpx.codes.OK)
        yield http, server


async def test_runs_are_served_and_executions_answer_503(gateway: Gateway) -> None:
    http, _ = gateway
    run = await http.post("/runs", json={"flow_name": "hello"}, timeout=3)
    assert run.status_code == httpx.codes.OK, run.text
    cancel = await http.post(f"/runs/{run.json()['run_id']}/cancel", timeout=3)
    assert cancel.status_code == httpx.codes.OK, cancel.text

    async def refused() -> bool:
        return "denied" in (await http.get("/graphs")).text

    await eventually(refused, True)
    for method, path in (
        ("GET", "/executions"),
        ("GET", f"/executions/{new_run_id()}"),
        ("POST", "/executions"),
        ("POST", f"/executions/{new_run_id()}/cancel"),
        ("PUT", "/graphs/a"),
        ("GET", "/waits"),
        ("GET", "/ready-tasks"),
    ):
        answer = await http.request(method, path, json={}, headers={"X-Idempotency-Key": "k"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (503, "BROKER_UNAVAILABLE"), path
        assert error["details"]["errId"] == "ERR-PYOCO-0164"
        assert answer.headers["Retry-After"] == "30"
        # Subjects and users are for operators only.
        assert "$JS" not in answer.text
        assert "pyoco-gateway" not in answer.text


async def test_health_names_the_missing_permissions(gateway: Gateway) -> None:
    http, _ = gateway

    async def executions() -> dict[str, Any]:
        found = (await http.get("/health?verbose=1")).json()["executions"]
        return dict(found)

    found = await eventually(executions, lambda body: bool(body["problems"]))
    assert found["available"] is False
    assert found["problems"][0] == f"PYOCO_EXECUTIONS: {DENIED}"
    assert len(found["problems"]) == 3
    assert {stream["state"] for stream in found["streams"]} == {"denied"}


def violations(server: NatsServer) -> list[str]:
    return re.findall(r'Publish Violation.* Subject "([^"]+)"', server.process.log())


async def test_denied_requests_are_not_repeated_at_once(gateway: Gateway) -> None:
    """The broker logs each of them."""
    _, server = gateway
    await eventually(lambda: len(violations(server)), 3)
    # Time in which a part that repeats its request would show.
    await anyio.sleep(1)
    assert sorted(violations(server)) == [
        f"$JS.API.STREAM.INFO.{stream}"
        for stream in ("KV_pyoco_exec_checkpoints", "PYOCO_EXECUTIONS", "PYOCO_GRAPHS")
    ]
