"""The output of a run is read once for all of its followers."""

import json
from collections.abc import AsyncGenerator

import anyio
import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.logs.tails import OutputTail, OutputTails
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.output_store import OutputStore, StoredChunk
from pyoco_protocol.runs.output import OutputChunk
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.builders import snapshot_json
from pyoco_testkit.nats_server import NatsServer

RUN = new_run_id()
CHUNKS = 20


class CountingStore(OutputStore):
    """The real store, which also counts reads."""

    reads = 0

    async def next(self, run_id: str, from_seq: int) -> StoredChunk | None:
        self.reads += 1
        return await super().next(run_id, from_seq)


@pytest.fixture
async def logs(nats_server: NatsServer) -> AsyncGenerator[CountingStore]:
    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    settings = BrokerSettings(nats_url=nats_server.url)
    async with open_broker(settings, name="tests", prepare=prepare) as broker:
        await broker.wait_until_up()
        yield CountingStore(broker, Names())


async def put(logs: OutputStore, *numbers: int, run_id: str = RUN) -> None:
    for n in numbers:
        await logs.put(OutputChunk(run_id=run_id, attempt=1, n=n))


async def read_all(tail: OutputTail, from_seq: int = 0) -> list[int]:
    """Return the numbers of all chunks from a sequence on."""
    found: list[int] = []
    while (stored := await tail.next(from_seq)) is not None:
        assert stored.chunk is not None
        found.append(stored.chunk.n)
        from_seq = stored.stream_seq + 1
    return found


def change(run_id: str, **fields: object) -> Entry:
    data = json.dumps(snapshot_json(run_id=run_id, **fields)).encode()
    return Entry(key=run_id, revision=1, value=data, written_at=0.0, pending=0)


async def test_a_run_is_read_once_for_all_followers(logs: CountingStore) -> None:
    tails, received = OutputTails(logs), list[list[int]]()

    async def follow() -> None:
        async with tails.following(RUN) as tail:
            numbers: list[int] = []
            seq = 0
            while len(numbers) < CHUNKS:
                changed = tail.changed
                while (stored := await tail.next(seq)) is not None:
                    assert stored.chunk is not None
                    numbers.append(stored.chunk.n)
                    seq = stored.stream_seq + 1
                if len(numbers) < CHUNKS:
                    await changed.wait()
            received.append(numbers)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as followers:
            for _ in range(50):
                followers.start_soon(follow)
            await put(logs, *range(CHUNKS))
    assert received == [list(range(CHUNKS))] * 50
    # One read for each chunk, and some too early ones, but not one for each follower.
    assert logs.reads < 10 * CHUNKS
    assert tails.followed == 0


async def test_without_new_output_nothing_is_read(logs: CountingStore) -> None:
    async with OutputTails(logs).following(RUN) as tail:
        await put(logs, 0)
        assert await read_all(tail) == [0]
        before = logs.reads
        for _ in range(10):
            tail.poll()
            assert await read_all(tail) == [0]
        assert logs.reads - before <= 1


async def test_a_slow_follower_misses_nothing(logs: CountingStore) -> None:
    async with OutputTails(logs).following(RUN) as tail:
        await put(logs, *range(100))
        assert await read_all(tail) == list(range(100))
        assert await read_all(tail) == list(range(100))
        assert await read_all(tail, 96) == [95, 96, 97, 98, 99]
        # A start beyond the end finds nothing.
        assert await read_all(tail, 1000) == []


async def test_a_follower_that_starts_late_does_not_affect_others(
    logs: CountingStore,
) -> None:
    async with OutputTails(logs).following(RUN) as tail:
        await put(logs, *range(10))
        assert await read_all(tail, 8) == [7, 8, 9]
        assert await read_all(tail) == list(range(10))


async def test_the_end_of_a_run_ends_its_tail(logs: CountingStore) -> None:
    tails, other = OutputTails(logs), new_run_id()
    feed = RunFeed([tails])
    async with tails.following(RUN) as tail, tails.following(other) as another:
        feed.on_entry(change(RUN, status="RUNNING"))
        feed.on_entry(change(new_run_id(), status="COMPLETED"))
        assert [each.has_ended for each in (tail, another)] == [False, False]
        changed = tail.changed
        feed.on_entry(change(RUN, status="COMPLETED"))
        assert changed.is_set()
        assert [each.has_ended for each in (tail, another)] == [True, False]
        feed.on_entry(Entry(key=other, revision=2, value=None, written_at=0.0, pending=0))
        assert [each.has_ended for each in (tail, another)] == [True, True]
    assert tails.followed == 0


async def test_a_new_connection_wakes_the_followers(logs: CountingStore) -> None:
    tails = OutputTails(logs)
    async with tails.following(RUN) as tail:
        assert await read_all(tail) == []
        # As if the announcement had been lost.
        tail._is_announced = False
        changed, before = tail.changed, logs.reads
        tails.on_resumed()
        assert changed.is_set()
        assert await read_all(tail) == []
        assert logs.reads == before + 1
