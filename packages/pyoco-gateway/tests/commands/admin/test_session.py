"""Broker connections of admin commands."""

from typing import Any

import pytest

from pyoco_gateway.commands.admin import session
from pyoco_gateway.commands.admin.session import key_session
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_testkit.nats_server import NatsServer

NO_FILE = {"PYOCO_LOAD_DOTENV": "0"}


async def test_a_broker_that_accepts_connections_but_does_not_answer_times_out(
    broker_link: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TIMEOUT_SEC", 0.5)
    link, url = broker_link
    link.swallow = ("$JS.API",)
    with pytest.raises(BrokerUnavailableError, match="not ready yet") as given_up:
        async with key_session({**NO_FILE, "PYOCO_NATS_URL": url}):
            pass
    assert url in str(given_up.value)


async def test_a_refusal_by_the_broker_is_a_named_error(nats_server: NatsServer) -> None:
    with pytest.raises(BrokerUnavailableError, match="insufficient storage"):
        async with key_session({**NO_FILE, "PYOCO_NATS_URL": nats_server.url}):
            raise RefusedError(500, 10047, "insufficient storage resources available")


async def test_only_the_bucket_of_keys_is_created(nats_server: NatsServer, store: Any) -> None:
    async with key_session({**NO_FILE, "PYOCO_NATS_URL": nats_server.url}) as (_, names):
        found = [each.config.name for each in await store.js.streams_info()]
    assert found == [f"KV_{names.auth_bucket}"]
