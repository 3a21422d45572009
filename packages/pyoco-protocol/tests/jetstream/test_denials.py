"""What the broker does not permit is called that, at once; the library would let us wait."""

import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import REQUEST_TIMEOUT_SEC, ask, until_known
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
DENIED = "broker does not permit this to us"


def denials(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == DENIED]


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncGenerator[Broker]:
    """A connection of a user who may do very little."""
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


async def test_a_request_that_is_not_permitted_says_so_and_by_whom(limited: Broker) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerPermissionError) as denied:
        await ask(limited.client, "$JS.API.STREAM.DELETE.PYOCO_WORK")
    assert time.monotonic() - began < REQUEST_TIMEOUT_SEC
    assert denied.value.subject == "$JS.API.STREAM.DELETE.PYOCO_WORK"
    assert "publishing on $JS.API.STREAM.DELETE.PYOCO_WORK to worker" in str(denied.value)
    assert denied.value.entry.err_id == "ERR-PYOCO-0140"


async def test_who_asks_over_http_reads_nothing_of_our_broker(limited: Broker) -> None:
    with pytest.raises(BrokerPermissionError) as denied:
        await ask(limited.client, "$JS.API.STREAM.DELETE.PYOCO_WORK")
    body = Problem.of(denied.value).model_dump_json().lower()
    assert denied.value.status == 503
    assert "stream.delete" not in body
    assert '"worker"' not in body


async def test_it_counts_as_a_broker_that_cannot_be_used(limited: Broker) -> None:
    with pytest.raises(BrokerUnavailableError):
        await Bucket(limited, "pyoco_auth").read("key")


async def test_others_get_their_answers_meanwhile(limited: Broker) -> None:
    results: list[str] = []

    async def asked(subject: str) -> None:
        try:
            await ask(limited.client, subject)
        except BrokerPermissionError:
            results.append("denied")
        else:
            results.append("answered")

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(asked, "$JS.API.INFO")
            tasks.start_soon(asked, "$JS.API.STREAM.NAMES")
            tasks.start_soon(asked, "$JS.API.STREAM.LIST")
    assert sorted(results) == ["answered"] * 20 + ["denied"] * 40
    assert limited.is_up
    assert limited.client.stats["reconnects"] == 0


async def test_nothing_is_remembered_of_requests_that_are_over(limited: Broker) -> None:
    await ask(limited.client, "$JS.API.INFO")
    with pytest.raises(BrokerPermissionError):
        await ask(limited.client, "$JS.API.STREAM.NAMES")
    assert vars(limited.client)["_asked"] == {}


@pytest.mark.parametrize("action", ["publishing", "subscribing"])
async def test_what_nobody_waits_for_is_logged_once_with_subject_and_user(
    limited: Broker, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    for _ in range(3):
        if action == "publishing":
            await limited.client.publish("pyoco.work.GPU", b"{}")
        else:
            await limited.client.subscribe("pyoco.work.GPU")
    await until_known(limited.client)
    await eventually(lambda: len(denials(caplog)) > 0, True)
    said = [record.__dict__ for record in denials(caplog) if record.__dict__["action"] == action]
    assert [each["subject"] for each in said] == ["pyoco.work.GPU"]
    assert said[0]["user"] == "worker"
    assert said[0]["err_id"] == "ERR-PYOCO-0140"
    assert said[0]["levelno"] == logging.ERROR
    assert limited.trouble == f"the broker does not permit {action} on pyoco.work.GPU to worker"


async def test_a_broker_that_lets_us_prepare_nothing_is_not_up_and_says_why(
    limited: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = limited._settings

    async def prepare(broker: Broker) -> None:
        await ask(broker.client, "$JS.API.STREAM.INFO.PYOCO_WORK")

    async with open_broker(settings, name="tests", prepare=prepare) as broker:
        await eventually(lambda: len(denials(caplog)) > 0, True)
        # It tries again: an operator may give us what we need.
        await anyio.sleep(1.2)
        assert not broker.is_up
    assert len(denials(caplog)) == 1
