"""Streams of executions: every event once and in order, whatever happens to the broker."""

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager

import anyio
import pytest

from pyoco_gateway.executions import stream
from pyoco_gateway.executions.event_pages import EventQuery
from pyoco_gateway.executions.stream import ExecutionEvents
from pyoco_gateway.executions.views import json_of
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.commands import AnyCommand
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.problems import (
    BrokerUnavailableError,
    ExecutionBusyError,
    ExecutionNotFoundError,
    OutcomeUnknownError,
    SeqOutOfRangeError,
)
from pyoco_testkit.nats_server import NatsServer
from sse_client import Event, parsed
from stored_executions import ETL, StoredExecutions, chain_of, fork_of

TENANT = "default"


@pytest.fixture
async def stored(stored: StoredExecutions) -> AsyncGenerator[StoredExecutions]:
    """Give the parts of a gateway that follows the commits of a fresh broker."""
    async with stored.following():
        yield stored


class Client:
    """Reads the events of a stream as the HTTP response does."""

    def __init__(self, events: ExecutionEvents) -> None:
        self._events = events
        self.received: list[Event] = []

    async def next(self) -> Event | None:
        """Return the next event; None at the end of the stream."""
        with anyio.fail_after(20):
            while (frame := self._events.take()) is None:
                if self._events.is_over:
                    return None
                await self._events.wakeup.wait()
        self.received.append(parsed(frame.decode().removesuffix("\n\n")))
        return self.received[-1]

    async def read(self, count: int) -> list[Event]:
        """Return so many events."""
        found = [await self.next() for _ in range(count)]
        return [each for each in found if each is not None]

    async def rest(self) -> list[Event]:
        """Return all events until the stream ends."""
        start = len(self.received)
        while await self.next() is not None:
            pass
        return self.received[start:]


@asynccontextmanager
async def opened(
    stored: StoredExecutions, execution_id: str, after_seq: int | None = None
) -> AsyncGenerator[Client]:
    with ExitStack() as held:
        events = await stored.reads.stream(execution_id, TENANT, after_seq, held)
        assert events is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events.run)
            yield Client(events)
            tasks.cancel_scope.cancel()


async def is_over_for(stored: StoredExecutions, execution_id: str, after_seq: int) -> bool:
    """Return whether a client that resumes has everything."""
    with ExitStack() as held:
        return await stored.reads.stream(execution_id, TENANT, after_seq, held) is None


def names(events: Sequence[Event]) -> list[str]:
    return [each.name for each in events]


def ids(events: Sequence[Event]) -> list[int]:
    return [int(each.id) for each in events if each.id is not None]


async def test_a_stream_begins_with_the_state_and_goes_on_to_the_end(
    stored: StoredExecutions,
) -> None:
    execution_id = await stored.create()
    logged = await stored.state(execution_id)
    begin = logged.state.seq
    async with opened(stored, execution_id) as client:
        snapshot = await client.next()
        assert snapshot is not None
        assert (snapshot.name, snapshot.revision) == ("snapshot", begin)
        view = await stored.reads.execution.describe(logged)
        assert snapshot.data == json.loads(json_of(view))
        await stored.work(execution_id, "t", {"rows": None})
        told = await client.rest()
    assert names(told) == ["event"] * (len(told) - 1) + ["end"]
    assert ids(told) == list(range(begin + 1, begin + len(told)))
    assert told[-1].data == {"status": "COMPLETED", "seq": begin + len(told) - 1}
    page = await stored.reads.events(execution_id, TENANT, EventQuery(after_seq=begin))
    assert [each.data for each in told[:-1]] == [item.to_wire() for item in page.items]


@pytest.mark.parametrize("is_archived", [False, True])
async def test_a_client_resumes_after_any_event(
    stored: StoredExecutions, is_archived: bool
) -> None:
    execution_id = await stored.create(fork_of("a", "b"))
    await stored.work(execution_id, "a", None)
    await stored.work(execution_id, "b", None)
    end = (await stored.state(execution_id)).state.seq
    if is_archived:
        await stored.send(execution_id, cmd.ArchiveExecution())
    for after_seq in range(end):
        async with opened(stored, execution_id, after_seq) as client:
            told = await client.rest()
        assert ids(told) == list(range(after_seq + 1, end + 1))
        assert (told[-1].name, told[-1].data) == ("end", {"status": "COMPLETED", "seq": end})
        assert {each.data["type"] for each in told[:-1]}.isdisjoint({"EXECUTION_ARCHIVED"})
    assert await is_over_for(stored, execution_id, end)
    if is_archived:
        assert await is_over_for(stored, execution_id, end + 1)
    async with opened(stored, execution_id) as client:
        assert names(await client.rest()) == ["snapshot", "end"]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ([cmd.CancelExecution()], "CANCELED"),
        ([cmd.StartNode(node_id="t"), cmd.FailNode(node_id="t")], "FAILED"),
        ([cmd.StartNode(node_id="t"), cmd.SucceedNode(node_id="t")], "COMPLETED"),
    ],
)
async def test_the_end_says_how_the_execution_ended(
    stored: StoredExecutions, ending: list[AnyCommand], status: str
) -> None:
    execution_id = await stored.create()
    async with opened(stored, execution_id) as client:
        for command in ending:
            await stored.send(execution_id, command)
        told = await client.rest()
    assert told[-1].data == {"status": status, "seq": ids(told)[-1]}


async def test_a_client_cannot_resume_after_an_event_that_is_not_there(
    stored: StoredExecutions,
) -> None:
    execution_id = await stored.create()
    last = (await stored.state(execution_id)).state.seq
    with pytest.raises(SeqOutOfRangeError):
        await is_over_for(stored, execution_id, last + 1)
    async with opened(stored, execution_id, last) as client:
        await stored.send(execution_id, cmd.StartNode(node_id="t"))
        assert ids(await client.read(1)) == [last + 1]


@pytest.mark.parametrize("after_seq", [None, 0, 1, 9999])
async def test_the_stream_of_another_tenant_is_unknown(
    stored: StoredExecutions, after_seq: int | None
) -> None:
    execution_id = await stored.create(tenant="other")
    with ExitStack() as held, pytest.raises(ExecutionNotFoundError):
        await stored.reads.stream(execution_id, TENANT, after_seq, held)


async def test_a_long_log_is_streamed_whole_to_a_client_that_reads_slowly(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_AHEAD_EVENTS", 3)
    execution_id = str(uuid.uuid4())
    sizes = [1, 50, 1, 200, *[2] * 100]
    await stored.write(execution_id, chain_of(execution_id, sizes))
    received: list[int] = []
    most = 0
    with ExitStack() as held:
        events = await stored.reads.stream(execution_id, TENANT, 0, held)
        assert events is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events.run)
            while len(received) < sum(sizes):
                await events.wakeup.wait()
                # The stream has had the time to read on.
                await anyio.wait_all_tasks_blocked()
                ready = list(iter(events.take, None))
                most = max(most, len(ready))
                received += ids([parsed(each.decode().strip()) for each in ready])
            tasks.cancel_scope.cancel()
    assert received == list(range(1, sum(sizes) + 1))
    assert most == 3


async def test_large_events_are_encoded_few_at_a_time(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_AHEAD_BYTES", 1000)
    execution_id = str(uuid.uuid4())
    await stored.write(execution_id, chain_of(execution_id, [50]))
    with ExitStack() as held:
        events = await stored.reads.stream(execution_id, TENANT, 0, held)
        assert events is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events.run)
            await events.wakeup.wait()
            await anyio.wait_all_tasks_blocked()
            assert sum(map(len, iter(events.take, None))) <= 1000
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"n":2', b'"n":3'),
        lambda body: body.replace(b'"v":1', b'"v":2'),
        lambda body: body.replace(b"NODE_PROGRESS_REPORTED", b"NODE_DREAMED"),
        lambda _: b"no commit",
    ],
    ids=["damaged", "newer version", "newer event", "unreadable"],
)
async def test_a_stream_ends_where_the_log_cannot_be_read(
    stored: StoredExecutions, change: Callable[[bytes], bytes]
) -> None:
    execution_id = str(uuid.uuid4())
    first, second, third = chain_of(execution_id, [2, 1, 1])
    copy = await stored.copy(execution_id, [first])
    async with copy.following(), opened(copy, execution_id, 0) as client:
        assert ids(await client.read(2)) == [1, 2]
        await copy.write(execution_id, [change(second), third])
        # Without the event `end`: the client asks again, and gets the error.
        assert await client.rest() == []


@pytest.mark.parametrize("is_set_back", [False, True])
async def test_the_stream_of_a_deleted_execution_ends(
    stored: StoredExecutions, is_set_back: bool
) -> None:
    execution_id = str(uuid.uuid4())
    bodies = chain_of(execution_id, [2, 1])
    copy = await stored.copy(execution_id, bodies)
    name = copy.names.execution_stream
    async with copy.following(), opened(copy, execution_id, 0) as client:
        await client.read(3)
        js = copy.broker.client.jetstream()
        if is_set_back:
            # As after the restore of a backup: the stream begins anew, or ends earlier.
            await js.delete_stream(name)
            await js.add_stream(name=name, subjects=[copy.names.execution("*")], allow_direct=True)
        else:
            await js.purge_stream(name)
        # A purge is no message; the next commit shows it.
        await copy.write(execution_id, [bodies[0]])
        assert await client.rest() == []


_TRANSIENT = (BrokerUnavailableError, RefusedError, OutcomeUnknownError, ExecutionBusyError)


async def test_a_stream_loses_and_doubles_nothing_across_restarts_of_the_broker(
    stored: StoredExecutions, nats_server: NatsServer
) -> None:
    tasks_of = {f"w{i}": [f"t{i}_{k}" for k in range(3)] for i in range(8)}
    node_ids = [node_id for ids in tasks_of.values() for node_id in ids]
    execution_id = await stored.create(fork_of(*node_ids))
    gateways = stored, StoredExecutions(stored.broker)
    done: list[str] = []
    reached = {8: anyio.Event(), 24: anyio.Event()}

    async def send(gateway: StoredExecutions, command: AnyCommand, key: str) -> None:
        while True:
            try:
                await gateway.send(execution_id, command, ETL, key=key)
            except _TRANSIENT:
                # The same key again: the command may be committed.
                await stored.broker.wait_until_up()
            else:
                done.append(key)
                if (event := reached.get(len(done))) is not None:
                    event.set()
                return

    async def write(gateway: StoredExecutions, own: list[str]) -> None:
        for node_id in own:
            await send(gateway, cmd.StartNode(node_id=node_id), f"start-{node_id}")
            await send(gateway, cmd.SucceedNode(node_id=node_id), f"end-{node_id}")

    async def restart() -> None:
        await reached[8].wait()
        nats_server.kill()
        await nats_server.start()
        await reached[24].wait()
        await nats_server.restart()

    async with opened(stored, execution_id) as client, anyio.create_task_group() as writers:
        for index, own in enumerate(tasks_of.values()):
            writers.start_soon(write, gateways[index % 2], own)
        writers.start_soon(restart)
        told = await client.rest()
    events = [each for each in told if each.name == "event"]
    assert names(told) == ["snapshot", *["event"] * len(events), "end"]
    begin = told[0].revision
    assert ids(events) == list(range(begin + 1, begin + len(events) + 1))
    assert told[-1].data == {"status": "COMPLETED", "seq": begin + len(events)}
    started = [e.data["payload"]["nodeId"] for e in events if e.data["type"] == "NODE_STARTED"]
    assert sorted(started) == sorted([*node_ids, "join", "done"])
    assert (await stored.reads.verify(execution_id, TENANT)).valid
