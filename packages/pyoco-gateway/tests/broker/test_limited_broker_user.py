"""A missing broker permission is shown to the operator, not to callers."""

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
    """A broker on which the gateway may not publish jobs."""
    async with NatsServer(tmp_path / "nats", config=users("pyoco.work.>")) as server:
        yield server


async def test_a_submission_without_publish_permission_gets_503_at_once_and_stores_nothing(
    no_jobs: NatsServer, start_gateway: StartGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_gateway(no_jobs.url, **LIMITED) as http:
        # Shorter than the timeout of a broker request.
        answer = await http.post("/runs", json={"flow_name": "hello", "tag": "cpu"}, timeout=4)
        listed = await eventually(lambda: http.get("/runs"), lambda got: got.status_code == 200)
        details = (await http.get("/health?verbose=1")).json()
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["err_id"] == "ERR-PYOCO-0140"
    for secret in ("pyoco.work", "limited", PASSWORD):
        assert secret not in answer.text
    # The job was definitely not queued, so the run was deleted.
    assert listed.json() == []
    assert details["broker"]["trouble"] == (
        "the broker denied publishing on pyoco.work.cpu to limited"
    )
    [denial] = [
        record.__dict__
        for record in caplog.records
        if record.getMessage() == "broker denied an operation"
    ]
    assert (denial["subject"], denial["user"]) == ("pyoco.work.cpu", "limited")
    assert denial["levelno"] == logging.ERROR


async def test_a_wrong_broker_password_is_shown_to_the_operator_only(
    no_jobs: NatsServer, start_gateway: StartGateway
) -> None:
    login = {**LIMITED, "PYOCO_NATS_PASSWORD": "guessed"}

    async def trouble(http: httpx.AsyncClient) -> str:
        return str((await http.get("/health?verbose=1")).json()["broker"]["trouble"])

    async with start_gateway(no_jobs.url, wait=False, **login) as http:
        await eventually(lambda: trouble(http), lambda text: "refused the credentials" in text)
        answer = await http.post("/runs", json={"flow_name": "hello"})
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert answer.json()["err_id"] == "ERR-PYOCO-0142"
    assert "limited" not in answer.text


async def test_an_admin_command_names_the_missing_permission(
    no_jobs: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TIMEOUT_SEC", 1.0)
    login = {"PYOCO_LOAD_DOTENV": "0", "PYOCO_NATS_URL": no_jobs.url, **LIMITED}
    with pytest.raises(BrokerLoginError):
        async with session.key_session({**login, "PYOCO_NATS_PASSWORD": "guessed"}):
            pass
    denied = users("$JS.API.STREAM.INFO.KV_pyoco_auth")
    async with NatsServer(tmp_path / "other", config=denied) as no_keys:
        with pytest.raises(BrokerPermissionError, match="KV_pyoco_auth to limited"):
            async with session.key_session({**login, "PYOCO_NATS_URL": no_keys.url}):
                pass
