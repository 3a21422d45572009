"""Run output in the stream of a real broker."""

import anyio
import anyio.lowlevel
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.runs.output import OutputChunk, OutputEntry
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually

NAMES = Names()


@pytest.fixture
def store(broker: Broker) -> OutputStore:
    return OutputStore(broker, NAMES)


def chunk(run_id: str, n: int = 0, text: str = "hello") -> OutputChunk:
    entry = OutputEntry(ts=1763366401.25, task="a", stream="stdout", text=text)
    return OutputChunk(run_id=run_id, attempt=1, n=n, entries=(entry,))


async def chunks_of(store: OutputStore, run_id: str) -> list[OutputChunk | None]:
    found: list[OutputChunk | None] = []
    seq = 0
    while (stored := await store.next(run_id, seq)) is not None:
        found.append(stored.chunk)
        seq = stored.stream_seq + 1
    return found


async def test_the_chunks_of_a_run_are_read_in_order_without_those_of_other_runs(
    store: OutputStore,
) -> None:
    one, other = new_run_id(), new_run_id()
    for n in range(3):
        await store.put(chunk(one, n))
        await store.put(chunk(other, n, "not for you"))
    assert await chunks_of(store, one) == [chunk(one, n) for n in range(3)]
    assert await chunks_of(store, new_run_id()) == []


async def test_a_chunk_published_twice_is_stored_once(store: OutputStore) -> None:
    run_id = new_run_id()
    for _ in range(2):
        await store.put(chunk(run_id))
    assert await chunks_of(store, run_id) == [chunk(run_id)]


async def test_a_deleted_run_id_can_be_used_again_with_other_output(store: OutputStore) -> None:
    run_id = new_run_id()
    await store.put(chunk(run_id, text="before"))
    await store.purge(run_id)
    await store.put(chunk(run_id, text="after"))
    assert await chunks_of(store, run_id) == [chunk(run_id, text="after")]


async def test_an_invalid_chunk_is_returned_as_none_and_does_not_hide_the_others(
    store: OutputStore, broker: Broker
) -> None:
    run_id = new_run_id()
    await store.put(chunk(run_id, 0))
    js = broker.client.jetstream()
    for invalid in (b"", b"{}", b"\xff\xfe", b'{"run_id": 3}'):
        await js.publish(NAMES.run_log(run_id), invalid)
    await store.put(chunk(run_id, 1))
    assert await chunks_of(store, run_id) == [
        chunk(run_id, 0),
        *[None] * 4,
        chunk(run_id, 1),
    ]


async def test_a_purge_deletes_the_output_of_one_run_only(store: OutputStore) -> None:
    one, other = new_run_id(), new_run_id()
    await store.put(chunk(one))
    await store.put(chunk(other))
    await store.purge(one)
    assert await chunks_of(store, one) == []
    assert await chunks_of(store, other) == [chunk(other)]
    # A repeated purge and a purge of an unknown run do nothing.
    await store.purge(one)
    await store.purge(new_run_id())


async def test_new_chunks_are_announced_to_a_subscriber(store: OutputStore) -> None:
    run_id, announced = new_run_id(), list[int]()
    async with store.subscribed(run_id, lambda: announced.append(1)):
        await store.put(chunk(run_id))
        await store.put(chunk(new_run_id()))
        await eventually(lambda: len(announced), 1)
    await store.put(chunk(run_id, 1))
    async with store.subscribed(run_id, lambda: announced.append(2)):
        await store.put(chunk(run_id, 2))
        await eventually(lambda: announced, [1, 2])


async def test_a_cancelled_subscription_leaves_the_connection_usable(
    broker: Broker, store: OutputStore
) -> None:
    async def subscribe() -> None:
        async with store.subscribed(new_run_id(), lambda: None):
            await anyio.sleep_forever()

    for turns in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscribe)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert await store.next(new_run_id(), 1) is None
