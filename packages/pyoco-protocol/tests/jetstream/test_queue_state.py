"""Numbers and ages of waiting jobs on a real broker."""

from typing import Any

import pytest

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.ensure import ensure_consumer
from pyoco_protocol.jetstream.queue_state import (
    DeadLetterLevel,
    QueueState,
    read_dead_letter_level,
    read_queues,
)
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.settings import ConsumerSettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_consumer

NAMES = Names()


async def put(broker: Broker, tag: str, count: int = 1) -> None:
    for _ in range(count):
        await ask(broker.client, NAMES.work(tag), b"{}")


async def consumer(broker: Broker, tag: str) -> Any:
    await ensure_consumer(broker.client, wanted_consumer(tag, NAMES, ConsumerSettings()))
    return await broker.client.jetstream().pull_subscribe_bind(
        f"pyoco_workers_{tag}", stream=NAMES.work_stream
    )


async def test_without_jobs_and_consumers_there_are_no_queues(broker: Broker) -> None:
    assert await read_queues(broker, NAMES) == []


async def test_jobs_without_a_consumer_are_pending(broker: Broker) -> None:
    await put(broker, "gpu", 3)
    (queue,) = await read_queues(broker, NAMES)
    assert (queue.tag, queue.pending, queue.in_flight) == ("gpu", 3, 0)
    assert queue.oldest_age_sec is not None
    assert 0 <= queue.oldest_age_sec < 30


async def test_a_tag_with_a_consumer_and_no_jobs_is_listed(broker: Broker) -> None:
    await consumer(broker, "cpu")
    assert await read_queues(broker, NAMES) == [QueueState("cpu", 0, 0, None)]


async def test_a_delivered_job_is_in_flight_and_not_pending(broker: Broker) -> None:
    await put(broker, "cpu", 2)
    pull = await consumer(broker, "cpu")
    (first,) = await pull.fetch(1)
    (queue,) = await read_queues(broker, NAMES)
    assert (queue.pending, queue.in_flight) == (1, 1)
    assert queue.oldest_age_sec is not None
    await pull.fetch(1)
    assert await read_queues(broker, NAMES) == [QueueState("cpu", 0, 2, None)]
    await first.ack_sync()
    assert await read_queues(broker, NAMES) == [QueueState("cpu", 0, 1, None)]


async def test_queues_are_counted_separately_and_sorted_by_tag(broker: Broker) -> None:
    await put(broker, "b", 2)
    await put(broker, "a")
    await consumer(broker, "c")
    found = [(each.tag, each.pending) for each in await read_queues(broker, NAMES)]
    assert found == [("a", 1), ("b", 2), ("c", 0)]


async def test_consumers_of_all_pages_are_counted(broker: Broker) -> None:
    tags = [f"t{number:03}" for number in range(300)]
    for tag in tags:
        await ensure_consumer(broker.client, wanted_consumer(tag, NAMES, ConsumerSettings()))
    assert [each.tag for each in await read_queues(broker, NAMES)] == tags


async def test_dead_letters_are_counted_with_their_limits(broker: Broker) -> None:
    await ask(broker.client, NAMES.dlq("gpu"), b"{}")
    level = await read_dead_letter_level(broker, NAMES)
    assert (level.messages, level.max_messages, level.max_bytes) == (1, 100_000, 536_870_912)
    assert level.size_bytes > 0
    assert 0 < level.fill_ratio < 0.001


@pytest.mark.parametrize(
    ("level", "ratio"),
    [
        (DeadLetterLevel(5, 10, None, None), 0.0),
        (DeadLetterLevel(5, 10, 10, None), 0.5),
        (DeadLetterLevel(5, 10, 10, 10), 1.0),
        (DeadLetterLevel(0, 0, 10, 10), 0.0),
    ],
)
def test_the_fill_ratio_is_that_of_the_limit_reached_first(
    level: DeadLetterLevel, ratio: float
) -> None:
    assert level.fill_ratio == ratio
