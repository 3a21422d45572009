"""Reading and removing dead letters in a real stream."""

import json
from typing import Any

import pytest

from pyoco_protocol.dead_letters import UNREADABLE, DeadLetter
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_reader import DeadLetterReader, Extent, StoredLetter
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.subjects import Names

NAMES = Names()


@pytest.fixture
def reader(broker: Broker) -> DeadLetterReader:
    return DeadLetterReader(broker, NAMES)


def letter(**fields: Any) -> DeadLetter:
    return DeadLetter.model_validate({"timestamp": 1.0, "reason": "execution_error", **fields})


async def put(broker: Broker, *letters: DeadLetter) -> None:
    for number, each in enumerate(letters):
        await DeadLetterWriter(broker, NAMES).put(each, number)


async def test_a_published_dead_letter_can_be_read(
    broker: Broker, reader: DeadLetterReader
) -> None:
    first, second = letter(tag="cpu", error="世界"), letter(tag="gpu", details={"a": [1]})
    await put(broker, first, second)
    assert await reader.read(1) == StoredLetter(1, first)
    assert await reader.read(2) == StoredLetter(2, second)
    assert await reader.read(3) is None
    assert await reader.extent() == Extent(1, 2)


async def test_a_dead_letter_is_removed_once(broker: Broker, reader: DeadLetterReader) -> None:
    await put(broker, letter(tag="a"), letter(tag="b"), letter(tag="c"))
    assert [await reader.remove(seq) for seq in (3, 3, 7, 2**63 - 1)] == [True, False, False, False]
    assert await reader.read(3) is None
    assert await reader.extent() == Extent(1, 3)
    # The newest existing message; the last sequence of the stream is higher.
    assert await reader.newest_seq() == 2
    assert [await reader.remove(seq) for seq in (1, 2)] == [True, True]
    assert await reader.newest_seq() == 0


async def test_a_refused_removal_is_not_reported_as_already_removed(
    broker: Broker, reader: DeadLetterReader
) -> None:
    await put(broker, letter(tag="a"))
    info = await ask(broker.client, "$JS.API.STREAM.INFO.PYOCO_DLQ")
    sealed = json.dumps({**info["config"], "deny_delete": True}).encode()
    await ask(broker.client, "$JS.API.STREAM.UPDATE.PYOCO_DLQ", sealed)
    with pytest.raises(RefusedError):
        await reader.remove(1)


async def test_an_invalid_message_is_read_with_the_time_it_was_stored(
    broker: Broker, reader: DeadLetterReader
) -> None:
    await ask(broker.client, NAMES.dlq("odd"), b"not a dead letter")
    stored = await reader.read(1)
    assert stored is not None
    assert stored.letter.reason == UNREADABLE
    assert stored.letter.timestamp > 1_700_000_000
