"""What runs print, in the stream of a real broker."""

import anyio
import anyio.lowlevel
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.output_store import OutputStore
from pyoco_protocol.runs.output import LogChunk, LogEntry
from pyoco_protocol.subjects import Names
from pyoco_testkit.eventually import eventually

NAMES = Names()


@pytest.fixture
def logs(broker: Broker) -> OutputStore:
    return OutputStore(broker, NAMES)


def chunk(run_id: str, n: int = 0, text: str = "hello") -> LogChunk:
    entry = LogEntry(ts=1763366401.25, task="a", stream="stdout", text=text)
    return LogChunk(run_id=run_id, attempt=1, n=n, entries=(entry,))


async def chunks_of(logs: OutputStore, run_id: str) -> list[LogChunk | None]:
    found: list[LogChunk | None] = []
    seq = 0
    while (stored := await logs.next(run_id, seq)) is not None:
        found.append(stored.chunk)
        seq = stored.stream_seq + 1
    return found


async def test_the_chunks_of_a_run_come_back_in_order_and_without_those_of_others(
    logs: OutputStore,
) -> None:
    one, other = new_run_id(), new_run_id()
    for n in range(3):
        await logs.put(chunk(one, n))
        await logs.put(chunk(other, n, "not for you"))
    assert await chunks_of(logs, one) == [chunk(one, n) for n in range(3)]
    assert await chunks_of(logs, new_run_id()) == []


async def test_a_chunk_that_is_sent_twice_is_there_once(logs: OutputStore) -> None:
    run_id = new_run_id()
    for _ in range(2):
        await logs.put(chunk(run_id))
    assert await chunks_of(logs, run_id) == [chunk(run_id)]


async def test_a_run_that_comes_again_under_its_id_has_its_own_chunks(logs: OutputStore) -> None:
    run_id = new_run_id()
    await logs.put(chunk(run_id, text="before"))
    await logs.purge(run_id)
    await logs.put(chunk(run_id, text="after"))
    assert await chunks_of(logs, run_id) == [chunk(run_id, text="after")]


async def test_what_is_no_chunk_is_told_and_hides_no_other(
    logs: OutputStore, broker: Broker
) -> None:
    run_id = new_run_id()
    await logs.put(chunk(run_id, 0))
    js = broker.client.jetstream()
    for rubbish in (b"", b"{}", b"\xff\xfe", b'{"run_id": 3}'):
        await js.publish(NAMES.run_log(run_id), rubbish)
    await logs.put(chunk(run_id, 1))
    assert await chunks_of(logs, run_id) == [
        chunk(run_id, 0),
        *[None] * 4,
        chunk(run_id, 1),
    ]


async def test_a_purge_takes_what_one_run_printed_and_nothing_else(logs: OutputStore) -> None:
    one, other = new_run_id(), new_run_id()
    await logs.put(chunk(one))
    await logs.put(chunk(other))
    await logs.purge(one)
    assert await chunks_of(logs, one) == []
    assert await chunks_of(logs, other) == [chunk(other)]
    # Once more, and where there is nothing.
    await logs.purge(one)
    await logs.purge(new_run_id())


async def test_new_chunks_are_heard_of_while_one_listens(logs: OutputStore) -> None:
    run_id, heard = new_run_id(), list[int]()
    async with logs.hearing(run_id, lambda: heard.append(1)):
        await logs.put(chunk(run_id))
        await logs.put(chunk(new_run_id()))
        await eventually(lambda: len(heard), 1)
    await logs.put(chunk(run_id, 1))
    async with logs.hearing(run_id, lambda: heard.append(2)):
        await logs.put(chunk(run_id, 2))
        await eventually(lambda: heard, [1, 2])


async def test_who_gives_up_listening_leaves_the_connection_as_it_was(
    broker: Broker, logs: OutputStore
) -> None:
    async def listen() -> None:
        async with logs.hearing(new_run_id(), lambda: None):
            await anyio.sleep_forever()

    for turns in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert await logs.next(new_run_id(), 1) is None
