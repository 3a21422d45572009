"""Denied operations fail at once with a clear error; the library would let them time out."""

import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC, ask, confirm_subscriptions
from pyoco_protocol.problems import BrokerPermissionError, BrokerUnavailableError, Problem
from pyoco_protocol.settings import BrokerSettings
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

PASSWORD = "s3cr3t-of-the-broker"
USERS = f"""
authorization {{ users: [{{
  user: "worker", password: "{PASSWORD}",
  permissions: {{
    publish: ["$JS.API.INFO", "_INBOX_worker.>"],
    subscribe: ["_INBOX_worker.>"],
  }}
}}] }}"""
DENIED = "broker denied an operation"


def denials(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == DENIED]


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncGenerator[Broker]:
    """A connection of a user with few permissions."""
    async with NatsServer(tmp_path / "nats", config=USERS) as server:
        settings = BrokerSettings.model_validate(
            {
                "nats_url": server.url,
                "nats_user": "worker",
                "nats_password": PASSWORD,
                "nats_inbox_prefix": "_INBOX_worker",
            }
        )
        async with open_broker(settings, name="tests") as broker:
            await broker.wait_until_up()
            yield broker


async def test_a_denied_request_raises_an_error_with_subject_and_user(limited: Broker) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerPermissionError) as denied:
        await ask(limited.client, "$JS.API.STREAM.DELETE.PYOCO_WORK")
    assert time.monotonic() - began < REQUEST_TIMEOUT_SEC
    assert denied.value.subject == "$JS.API.STREAM.DELETE.PYOCO_WORK"
    assert "publishing on $JS.API.STREAM.DELETE.PYOCO_WORK to worker" in str(denied.value)
    assert denied.value.entry.err_id == "ERR-PYOCO-0140"


async def test_the_http_problem_does_not_reveal_subject_or_user(limited: Broker) -> None:
    with pytest.raises(BrokerPermissionError) as denied:
        await ask(limited.client, "$JS.API.STREAM.DELETE.PYOCO_WORK")
    body = Problem.of(denied.value).model_dump_json().lower()
    assert denied.value.status == 503
    assert "stream.delete" not in body
    assert '"worker"' not in body


async def test_a_denied_request_is_a_broker_unavailable_error(limited: Broker) -> None:
    with pytest.raises(BrokerUnavailableError):
        await Bucket(limited, "pyoco_auth").read("key")


async def test_a_denied_request_does_not_disturb_other_requests(limited: Broker) -> None:
    results: list[str] = []

    async def request(subject: str) -> None:
        try:
            await ask(limited.client, subject)
        except BrokerPermissionError:
            results.append("denied")
        else:
            results.append("answered")

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(request, "$JS.API.INFO")
            tasks.start_soon(request, "$JS.API.STREAM.NAMES")
            tasks.start_soon(request, "$JS.API.STREAM.LIST")
    assert sorted(results) == ["answered"] * 20 + ["denied"] * 40
    assert limited.is_up
    assert limited.client.stats["reconnects"] == 0


async def test_answered_and_denied_requests_are_forgotten(limited: Broker) -> None:
    await ask(limited.client, "$JS.API.INFO")
    with pytest.raises(BrokerPermissionError):
        await ask(limited.client, "$JS.API.STREAM.NAMES")
    assert vars(limited.client)["_open_requests"] == {}


@pytest.mark.parametrize("action", ["publishing", "subscribing"])
async def test_a_denied_operation_without_a_reply_is_logged_once_with_subject_and_user(
    limited: Broker, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    for _ in range(3):
        if action == "publishing":
            await limited.client.publish("pyoco.work.GPU", b"{}")
        else:
            await limited.client.subscribe("pyoco.work.GPU")
    await confirm_subscriptions(limited.client)
    await eventually(lambda: len(denials(caplog)) > 0, True)
    logged = [record.__dict__ for record in denials(caplog) if record.__dict__["action"] == action]
    assert [each["subject"] for each in logged] == ["pyoco.work.GPU"]
    assert logged[0]["user"] == "worker"
    assert logged[0]["err_id"] == "ERR-PYOCO-0140"
    assert logged[0]["levelno"] == logging.ERROR
    assert limited.trouble == f"the broker denied {action} on pyoco.work.GPU to worker"


async def test_a_broker_that_denies_preparation_is_not_up_and_logs_why_once(
    limited: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = limited._settings

    async def prepare(broker: Broker) -> None:
        await ask(broker.client, "$JS.API.STREAM.INFO.PYOCO_WORK")

    async with open_broker(settings, name="tests", prepare=prepare) as broker:
        await eventually(lambda: len(denials(caplog)) > 0, True)
        # Time for two more attempts.
        await anyio.sleep(1.2)
        assert not broker.is_up
    assert len(denials(caplog)) == 1
