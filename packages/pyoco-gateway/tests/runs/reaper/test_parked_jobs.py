"""Parked jobs: their run fails, once, and leaves one dead letter."""

from itertools import count
from typing import Any

from pyoco_gateway.runs.reaper.parked_jobs import ParkedJobReaper
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.dead_letter_writer import DeadLetterWriter
from pyoco_protocol.jetstream.parked_jobs import ParkedJob
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot


async def test_two_parked_jobs_of_one_run_leave_one_dead_letter(broker: Broker, store: Any) -> None:
    names = Names()
    runs = RunStore(broker, names, retention_sec=0)
    ticks = count(1_000.0)
    reaper = ParkedJobReaper(
        broker=broker,
        store=runs,
        dead_letters=DeadLetterWriter(broker, names),
        names=names,
        # Each reading differs, as it does for two gateways.
        clock=lambda: next(ticks),
    )
    run = snapshot(tag="default")
    await runs.create(run)
    data = RunJob.of(run, default_tag="default").to_bytes()
    for _ in range(2):
        seq = int((await store.js.publish(names.work("default"), data)).seq)
        await reaper._remove(ParkedJob(seq, names.work("default"), data))

    assert (await store.js.stream_info("PYOCO_DLQ")).state.messages == 1
    assert (await store.js.stream_info("PYOCO_WORK")).state.messages == 0
