"""Parked jobs on a real broker."""

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.parked_jobs import (
    find_parked_jobs,
    read_job,
    remove_job,
    subscribe_to_parked_jobs,
)
from pyoco_testkit.eventually import eventually

STREAM = "PYOCO_WORK"


async def park(broker: Broker, **filters: object) -> list[int]:
    """Deliver two of three jobs up to the consumer's limit; return their sequences."""
    js = broker.client.jetstream()
    config = ConsumerConfig(
        durable_name="theirs", ack_policy=AckPolicy.EXPLICIT, ack_wait=0.2, max_deliver=1
    )
    await js.add_consumer(STREAM, config.evolve(**filters))
    jobs = [(await js.publish("pyoco.work.a", b"job-%d" % number)).seq for number in range(3)]
    subscription = await js.pull_subscribe_bind("theirs", STREAM)
    await subscription.fetch(2)
    return jobs[:2]


async def parked(broker: Broker) -> list[int]:
    return [job.stream_seq async for job in find_parked_jobs(broker, STREAM)]


@pytest.mark.parametrize(
    "filters",
    [
        {"filter_subject": "pyoco.work.a"},
        {"filter_subjects": ["pyoco.work.a", "pyoco.work.b"]},
        {},
    ],
)
async def test_parked_jobs_are_found_with_any_filter_of_their_consumer(
    broker: Broker, filters: dict[str, object]
) -> None:
    jobs = await park(broker, **filters)
    # Not found while they are unacknowledged; the third job still waits.
    await eventually(lambda: parked(broker), jobs)


async def test_a_newly_parked_job_is_announced(broker: Broker) -> None:
    announced: list[int] = []
    await subscribe_to_parked_jobs(broker, STREAM, announced.append)
    jobs = await park(broker, filter_subject="pyoco.work.a")
    # JetStream sends the advisory with the next pull.
    subscription = await broker.client.jetstream().pull_subscribe_bind("theirs", STREAM)
    await subscription.fetch(1)
    await eventually(lambda: sorted(announced), lambda seqs: seqs[:2] == jobs)


async def test_consumers_without_a_limit_park_nothing(broker: Broker) -> None:
    js = broker.client.jetstream()
    config = ConsumerConfig(durable_name="ours", ack_policy=AckPolicy.EXPLICIT, ack_wait=0.2)
    await js.add_consumer(STREAM, config)
    await js.publish("pyoco.work.a", b"job")
    subscription = await js.pull_subscribe_bind("ours", STREAM)
    await subscription.fetch(1)
    assert await parked(broker) == []


async def test_a_job_is_read_and_removed_and_can_be_removed_twice(broker: Broker) -> None:
    (first, second) = await park(broker, filter_subject="pyoco.work.a")
    job = await read_job(broker, STREAM, first)
    assert job is not None
    assert (job.subject, job.data) == ("pyoco.work.a", b"job-0")
    for _ in range(2):
        await remove_job(broker, STREAM, first)
    assert await read_job(broker, STREAM, first) is None
    await eventually(lambda: parked(broker), [second])
