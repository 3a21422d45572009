"""A gateway whose user at the broker lacks a right says so to its operator, not to its callers."""

import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from conftest import StartGateway
from pyoco_gateway.commands.admin import session
from pyoco_protocol.problems import BrokerLoginError, BrokerPermissionError
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

PASSWORD = "s3cr3t-of-the-broker"
LIMITED = {"PYOCO_NATS_USER": "limited", "PYOCO_NATS_PASSWORD": PASSWORD}


def users(*denied: str) -> str:
    return (
        f'authorization {{ users: [{{ user: "limited", password: "{PASSWORD}", '
        f"permissions: {{ publish: {{ deny: {json.dumps(denied)} }} }} }}] }}"
    )


@pytest.fixture
async def no_jobs(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    """A broker that lets the gateway do all but queue jobs."""
    async with NatsServer(tmp_path / "nats", config=users("pyoco.work.>")) as server:
        yield server


async def test_a_run_that_may_not_be_queued_is_answered_503_at_once_and_leaves_nothing(
    no_jobs: NatsServer, start_gateway: StartGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_gateway(no_jobs.url, **LIMITED) as http:
        # Shorter than a request to the broker is waited for.
        answer = await http.post("/runs", json={"flow_name": "hello", "tag": "cpu"}, timeout=4)
        listed = await eventually(lambda: http.get("/runs"), lambda got: got.status_code == 200)
        details = (await http.get("/health?verbose=1")).json()
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["err_id"] == "ERR-PYOCO-0140"
    for secret in ("pyoco.work", "limited", PASSWORD):
        assert secret not in answer.text
    # Surely not queued, so the run is not there either.
    assert listed.json() == []
    assert details["broker"]["trouble"] == (
        "the broker denied publishing on pyoco.work.cpu to limited"
    )
    [said] = [
        record.__dict__
        for record in caplog.records
        if record.getMessage() == "broker denied an operation"
    ]
    assert (said["subject"], said["user"]) == ("pyoco.work.cpu", "limited")
    assert said["levelno"] == logging.ERROR


async def test_a_wrong_password_is_shown_to_who_looks_after_the_gateway(
    no_jobs: NatsServer, start_gateway: StartGateway
) -> None:
    login = {**LIMITED, "PYOCO_NATS_PASSWORD": "guessed"}

    async def trouble(http: httpx.AsyncClient) -> str:
        return str((await http.get("/health?verbose=1")).json()["broker"]["trouble"])

    async with start_gateway(no_jobs.url, wait=False, **login) as http:
        await eventually(lambda: trouble(http), lambda said: "refused the credentials" in said)
        answer = await http.post("/runs", json={"flow_name": "hello"})
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["err_id"] == "ERR-PYOCO-0142"
    assert "limited" not in answer.text


async def test_a_command_that_needs_the_broker_says_what_is_missing(
    no_jobs: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PATIENCE_SEC", 1.0)
    login = {"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": no_jobs.url, **LIMITED}
    with pytest.raises(BrokerLoginError):
        async with session.key_session({**login, "PYOCO_NATS_PASSWORD": "guessed"}):
            pass
    denied = users("$JS.API.STREAM.INFO.KV_pyoco_auth")
    async with NatsServer(tmp_path / "other", config=denied) as no_keys:
        with pytest.raises(BrokerPermissionError, match="KV_pyoco_auth to limited"):
            async with session.key_session({**login, "PYOCO_NATS_URL": no_keys.url}):
                pass
