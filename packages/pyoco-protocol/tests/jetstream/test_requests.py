"""Outcomes of a request: answered, refused, certainly not executed, unknown."""

import json

import anyio
import pytest
from nats.aio.client import Client

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import (
    NoResponderError,
    RefusedError,
    UnknownOutcomeError,
    ask,
)
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

JOB = Names().work("cpu")
EXPECTED = "Nats-Expected-Last-Subject-Sequence"


async def stored_messages(client: Client) -> int:
    answer = await ask(client, f"$JS.API.STREAM.INFO.{Names().work_stream}")
    return int(answer["state"]["messages"])


async def failure_of(
    client: Client, subject: str, payload: bytes = b"x", *, timeout_sec: float = 5.0
) -> BrokerUnavailableError:
    with pytest.raises(BrokerUnavailableError) as failed:
        await ask(client, subject, payload, timeout_sec=timeout_sec)
    return failed.value


async def test_an_answer_is_returned_unchanged(broker: Broker) -> None:
    answer = await ask(broker.client, JOB, b"x", headers={"Nats-Msg-Id": "1"})
    assert (answer["stream"], answer["seq"]) == (Names().work_stream, 1)
    again = await ask(broker.client, JOB, b"x", headers={"Nats-Msg-Id": "1"})
    assert again["duplicate"] is True


async def test_an_error_answer_is_a_refusal_with_its_codes(broker: Broker) -> None:
    with pytest.raises(RefusedError) as refused:
        await ask(broker.client, "$JS.API.STREAM.INFO.NO_SUCH_STREAM")
    assert (refused.value.code, refused.value.err_code) == (404, 10059)
    assert "stream not found" in str(refused.value)
    assert not refused.value.is_conflict


async def test_a_write_with_an_outdated_sequence_is_a_conflict(broker: Broker) -> None:
    await ask(broker.client, JOB, b"x")
    with pytest.raises(RefusedError) as refused:
        await ask(broker.client, JOB, b"x", headers={EXPECTED: "0"})
    assert refused.value.is_conflict
    # A cluster answers the same with the other code.
    assert RefusedError(400, 10164, "wrong last sequence").is_conflict


async def test_a_message_that_is_too_large_is_refused_and_not_sent(broker: Broker) -> None:
    with pytest.raises(RefusedError) as refused:
        await ask(broker.client, JOB, b"x" * (broker.client.max_payload + 1))
    assert (refused.value.code, refused.value.is_conflict) == (413, False)
    assert await stored_messages(broker.client) == 0
    assert broker.client.is_connected


async def test_without_a_responder_the_request_was_not_executed(broker: Broker) -> None:
    failure = await failure_of(broker.client, "nobody.listens.here")
    assert type(failure) is NoResponderError


async def test_a_timeout_is_an_unknown_outcome(broker: Broker, nats_server: NatsServer) -> None:
    nats_server.pause()
    try:
        failure = await failure_of(broker.client, JOB, timeout_sec=0.3)
    finally:
        nats_server.resume()
    assert type(failure) is UnknownOutcomeError
    # The broker executes the request after the timeout.
    await eventually(lambda: stored_messages(broker.client), 1)


async def test_without_a_connection_nothing_is_sent_now_or_later(
    broker: Broker, nats_server: NatsServer
) -> None:
    nats_server.kill()
    await eventually(lambda: broker.client.is_connected, False)
    failure = await failure_of(broker.client, JOB)
    assert type(failure) is BrokerUnavailableError
    await nats_server.restart()
    await broker.wait_until_up()
    # A buffered request would have been stored before this one.
    await ask(broker.client, JOB, b"the only one")
    assert await stored_messages(broker.client) == 1


async def test_a_broker_that_dies_during_a_request_leaves_the_outcome_unknown(
    broker: Broker, nats_server: NatsServer
) -> None:
    failures: list[BrokerUnavailableError] = []

    async def ask_and_wait() -> None:
        failures.append(await failure_of(broker.client, JOB, timeout_sec=1.0))

    nats_server.pause()
    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_and_wait)
        await anyio.wait_all_tasks_blocked()
        nats_server.kill()
        await eventually(lambda: broker.client.is_connected, False)
    assert [type(failure) for failure in failures] == [UnknownOutcomeError]


async def test_a_request_on_a_closed_connection_was_not_executed(nats_server: NatsServer) -> None:
    client = Client()
    await client.connect(nats_server.url)
    await client.close()
    assert type(await failure_of(client, JOB)) is BrokerUnavailableError


async def test_headers_reach_the_broker(broker: Broker) -> None:
    await ask(broker.client, JOB, b"first", headers={EXPECTED: "0"})
    request = json.dumps({"last_by_subj": JOB}).encode()
    answer = await ask(broker.client, f"$JS.API.STREAM.MSG.GET.{Names().work_stream}", request)
    assert answer["message"]["subject"] == JOB
