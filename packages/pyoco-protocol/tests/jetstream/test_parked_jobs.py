"""Jobs that a consumer of someone else's making has stopped handing out, on a real broker."""

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.parked_jobs import (
    find_parked,
    hear_of_parked,
    read_job,
    remove_job,
)
from pyoco_testkit.eventually import eventually

STREAM = "PYOCO_WORK"


async def park(broker: Broker, **filters: object) -> list[int]:
    """Have two of three jobs handed out as often as their consumer allows; return them."""
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
    return [job.stream_seq async for job in find_parked(broker, STREAM)]


@pytest.mark.parametrize(
    "filters",
    [
        {"filter_subject": "pyoco.work.a"},
        {"filter_subjects": ["pyoco.work.a", "pyoco.work.b"]},
        {},
    ],
)
async def test_what_was_parked_is_found_whatever_its_consumer_looks_like(
    broker: Broker, filters: dict[str, object]
) -> None:
    jobs = await park(broker, **filters)
    # While they are out it cannot be told; the third one still waits.
    await eventually(lambda: parked(broker), jobs)


async def test_of_what_is_parked_from_now_on_one_hears(broker: Broker) -> None:
    heard: list[int] = []
    await hear_of_parked(broker, STREAM, heard.append)
    jobs = await park(broker, filter_subject="pyoco.work.a")
    # JetStream notices with the next request for jobs.
    subscription = await broker.client.jetstream().pull_subscribe_bind("theirs", STREAM)
    await subscription.fetch(1)
    await eventually(lambda: sorted(heard), lambda seqs: seqs[:2] == jobs)


async def test_consumers_without_a_limit_park_nothing(broker: Broker) -> None:
    js = broker.client.jetstream()
    config = ConsumerConfig(durable_name="ours", ack_policy=AckPolicy.EXPLICIT, ack_wait=0.2)
    await js.add_consumer(STREAM, config)
    await js.publish("pyoco.work.a", b"job")
    subscription = await js.pull_subscribe_bind("ours", STREAM)
    await subscription.fetch(1)
    assert await parked(broker) == []


async def test_a_job_is_read_and_removed_and_removing_it_twice_is_harmless(broker: Broker) -> None:
    (first, second) = await park(broker, filter_subject="pyoco.work.a")
    job = await read_job(broker, STREAM, first)
    assert job is not None
    assert (job.subject, job.data) == ("pyoco.work.a", b"job-0")
    for _ in range(2):
        await remove_job(broker, STREAM, first)
    assert await read_job(broker, STREAM, first) is None
    await eventually(lambda: parked(broker), [second])
