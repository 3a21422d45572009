"""Reading states: from the log, from cached states, from checkpoints."""

import json
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from executions.log.log_parts import NAMES, CommandSide, store_graph, stored_commits, task
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.core.reduce import Origin, reduce
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.log import state_reader
from pyoco_gateway.executions.log.checkpoint_codec import state_in
from pyoco_gateway.executions.log.logged_state import LoggedState, read_commit
from pyoco_protocol.executions.commands import (
    PutNodeWaiting,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.commits import CommitRecord
from pyoco_protocol.executions.events import NodeProgressReported
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import ExecutionNotFoundError, SeqOutOfRangeError
from pyoco_protocol.subjects import checkpoint_key, kv_key
from pyoco_testkit.graph_documents import forked

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@asynccontextmanager
async def read_requests(broker: Broker) -> AsyncGenerator[Callable[[], Awaitable[list[str]]]]:
    """Give a function that returns the kinds of the reads since its last call."""
    seen: list[str] = []
    kinds = {"STREAM.MSG.GET": "one", "DIRECT.GET": "batch", "STREAM.INFO": "keys"}

    async def note(message: Any) -> None:
        seen.extend(kind for name, kind in kinds.items() if name in message.subject)

    async def taken() -> list[str]:
        # The broker delivers to a connection in order, so the answer comes after all of these.
        await broker.client.request("$JS.API.INFO")
        found = seen.copy()
        seen.clear()
        return found

    subscription = await broker.client.subscribe("$JS.API.>", cb=note)
    yield taken
    await subscription.unsubscribe()


async def with_progress(side: CommandSide, commits: int, *, events: int = 1) -> LogWriter:
    """Return an execution whose log has this many further commits; no state is cached."""
    execution_id = await side.created()
    await side.send(execution_id, StartNode(node_id="t"))
    writer = LogWriter(side.broker, await side.replayed(execution_id))
    if commits:
        writer.add_progress(commits, events=events)
        await writer.flush()
    side.cache.drop(execution_id)
    return writer


async def test_other_tasks_get_a_turn_between_the_commits_of_a_long_log(
    side: CommandSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of commits with large outputs takes a tenth of a second to parse."""
    writer = await with_progress(side, 0)
    metrics: dict[str, JsonValue] = {"text": "x" * 40_000}
    report = NodeProgressReported(node_id="t", attempt=1, metrics=metrics)
    for _ in range(40):
        writer.add(writer.record([report]))
    await writer.flush()
    turns = 0
    turns_at_commits: list[int] = []

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    def counted(execution_id: str, body: bytes, *, n: int) -> CommitRecord:
        turns_at_commits.append(turns)
        return read_commit(execution_id, body, n=n)

    monkeypatch.setattr(state_reader, "read_commit", counted)
    for read in (side.reader.latest, partial(side.reader.at_seq, seq=45)):
        turns_at_commits.clear()
        side.cache.drop(writer.logged.execution_id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            await read(writer.logged.execution_id)
            tasks.cancel_scope.cancel()
        assert len(turns_at_commits) > 30
        assert max(Counter(turns_at_commits).values()) <= 4


async def test_an_unknown_execution_is_not_found(side: CommandSide) -> None:
    with pytest.raises(ExecutionNotFoundError):
        await side.reader.latest(UNKNOWN)
    with pytest.raises(ExecutionNotFoundError):
        await side.reader.at_seq(UNKNOWN, 1)


async def test_a_cached_state_is_advanced_by_what_others_have_committed(
    side: CommandSide,
) -> None:
    execution_id = await side.created()
    other = CommandSide(side.broker)
    await other.send(execution_id, StartNode(node_id="t", worker_id="w1"))
    await other.send(execution_id, SucceedNode(node_id="t"))

    logged = await side.reader.latest(execution_id)

    assert logged == await side.replayed(execution_id)
    assert side.cache.get(execution_id) == logged


async def test_the_state_after_an_own_commit_is_the_one_that_a_replay_gives(
    side: CommandSide,
) -> None:
    execution_id = await side.created()
    await side.send(execution_id, StartNode(node_id="t", worker_id="w1"))
    await side.send(execution_id, SucceedNode(node_id="t", output={"rows": 7}))

    assert side.cache.get(execution_id) == await side.replayed(execution_id)


async def test_a_state_that_is_the_latest_costs_one_read(side: CommandSide) -> None:
    execution_id = await side.created()
    async with read_requests(side.broker) as taken:
        await side.reader.latest(execution_id)
        assert await taken() == ["one"]


async def test_a_long_log_is_opened_from_a_checkpoint_of_its_last_commit(
    side: CommandSide,
) -> None:
    """Otherwise each gateway that starts would replay a log of 100,000 events."""
    writer = await with_progress(side, 20, events=100)
    await CommandSide(side.broker).reader.latest(writer.logged.execution_id)

    opened = CommandSide(side.broker)
    async with read_requests(side.broker) as taken:
        logged = await opened.reader.latest(writer.logged.execution_id)
        # The last commit, the keys of the checkpoints, the newest one, and its commit.
        assert await taken() == ["one", "keys", "one", "one"]
    assert logged == await side.replayed(writer.logged.execution_id)


def of_another_reducer(data: bytes) -> bytes:
    header = json.loads(zlib.decompress(data))
    header["reducer"] += 1
    return zlib.compress(json.dumps(header).encode())


@pytest.mark.parametrize("damage", [of_another_reducer, lambda data: data[:-1], lambda _: b""])
async def test_an_unusable_checkpoint_is_replaced_by_the_first_replay(
    side: CommandSide, damage: Callable[[bytes], bytes]
) -> None:
    writer = await with_progress(side, 20, events=100)
    execution_id = writer.logged.execution_id
    await side.reader.latest(execution_id)
    found = await side.checkpoints.newest(execution_id, 10_000)
    assert found is not None
    subject = kv_key(NAMES.checkpoints_bucket, checkpoint_key(execution_id, found[0]))
    await side.broker.client.jetstream().publish(subject, damage(found[1]))

    async with read_requests(side.broker) as taken:
        kinds = []
        for _ in range(2):
            await CommandSide(side.broker).reader.latest(execution_id)
            kinds.append("batch" in await taken())
        assert kinds == [True, False]


async def test_a_log_is_opened_from_an_earlier_checkpoint_and_the_commits_after_it(
    side: CommandSide,
) -> None:
    writer = await with_progress(side, 20, events=100)
    await CommandSide(side.broker).reader.latest(writer.logged.execution_id)
    writer = LogWriter(side.broker, await side.replayed(writer.logged.execution_id))
    writer.add_progress(5)
    await writer.flush()

    opened = CommandSide(side.broker)
    async with read_requests(side.broker) as taken:
        logged = await opened.reader.latest(writer.logged.execution_id)
        assert await taken() == ["one", "keys", "one", "one", "batch"]
    assert logged == await side.replayed(writer.logged.execution_id)


async def checkpoint_seqs(side: CommandSide, execution_id: str) -> list[int]:
    return await side.checkpoints._seqs(execution_id)


@pytest.mark.parametrize(("events", "is_written"), [(1490, False), (1500, True)])
async def test_a_checkpoint_is_written_after_a_replay_of_more_than_1500_events(
    side: CommandSide, events: int, is_written: bool
) -> None:
    writer = await with_progress(side, 1, events=events)
    execution_id = writer.logged.execution_id
    assert (writer.logged.state.seq > 1500) is is_written

    await side.reader.latest(execution_id)

    written = [writer.logged.state.seq] if is_written else []
    assert await checkpoint_seqs(side, execution_id) == written


async def test_a_checkpoint_is_written_by_a_commit_that_crosses_a_multiple_of_1000_events(
    side: CommandSide,
) -> None:
    writer = await with_progress(side, 1, events=1)
    execution_id = writer.logged.execution_id
    writer.add_progress(1, events=998 - writer.logged.state.seq)
    await writer.flush()

    # Each commit has one event: the events 999, 1,000 and 1,001.
    seqs = []
    for command in (PutNodeWaiting, ResumeNode, PutNodeWaiting):
        await side.send(execution_id, command(node_id="t"))
        seqs.append(await checkpoint_seqs(side, execution_id))
    assert seqs == [[], [1000], [1000]]


async def test_a_checkpoint_is_the_state_after_its_commit(side: CommandSide) -> None:
    writer = await with_progress(side, 1, events=1)
    execution_id = writer.logged.execution_id
    writer.add_progress(1, events=998 - writer.logged.state.seq)
    await writer.flush()
    await side.send(execution_id, SucceedNode(node_id="t"), key="k")

    found = await side.checkpoints.newest(execution_id, 10_000)

    assert found is not None
    assert found[0] > 1000
    assert state_in(execution_id, found[1]) == await side.replayed(execution_id)


async def test_every_event_of_a_log_can_be_asked_for(side: CommandSide) -> None:
    """Also in the middle of a commit, from the log and from a cached state."""
    await store_graph(side.broker, forked(task("a"), task("b")), "f")
    execution_id = await side.created(graph_id="f")
    for node in ("a", "b"):
        await side.send(execution_id, StartNode(node_id=node, worker_id="w"))
    await side.send(execution_id, SucceedNode(node_id="a", output={"n": 1}))
    half = side.cache.get(execution_id)
    await side.send(execution_id, SucceedNode(node_id="b"))
    assert half is not None

    commits = await stored_commits(side.log, execution_id)
    last = commits[-1][1]
    expected: dict[int, LoggedState | None] = {}
    for record, after in commits:
        for seq in range(record.first_seq, record.last_seq + 1):
            expected[seq] = after if seq == record.last_seq else None
    for seq, exact in expected.items():
        cold, warm = CommandSide(side.broker), CommandSide(side.broker)
        warm.cache.put(half)
        states = [await each.reader.at_seq(execution_id, seq) for each in (cold, warm, side)]
        assert [state.state.seq for state in states] == [seq] * 3
        assert states[0].state == states[1].state == states[2].state
        assert exact is None or place_of(states[0]) == place_of(exact)
    assert side.cache.get(execution_id) == last


def place_of(logged: LoggedState) -> tuple[int, str, int]:
    return logged.n, logged.last_hash, logged.stream_seq


async def test_an_event_is_found_from_a_checkpoint_before_it(side: CommandSide) -> None:
    writer = await with_progress(side, 20, events=100)
    execution_id = writer.logged.execution_id
    await CommandSide(side.broker).reader.latest(execution_id)
    at_checkpoint = writer.logged.state.seq
    writer = LogWriter(side.broker, await side.replayed(execution_id))
    writer.add_progress(15, events=100)
    await writer.flush()

    cold = CommandSide(side.broker)
    for seq in (at_checkpoint - 1, at_checkpoint, at_checkpoint + 1, at_checkpoint + 1250):
        logged = await cold.reader.at_seq(execution_id, seq)
        assert logged.state == await reduced_up_to(side, execution_id, seq)


async def reduced_up_to(side: CommandSide, execution_id: str, seq: int) -> ExecutionState:
    """Return the state after an event, from the events themselves."""
    state: ExecutionState | None = None
    for record, after in await stored_commits(side.log, execution_id):
        origin = Origin(
            execution_id, record.tenant_id, record.command.actor, record.at, after.stream_seq
        )
        events = [each.event() for each in record.events[: max(0, seq - record.first_seq + 1)]]
        state = reduce(state, events, origin) if events else state
    assert state is not None
    return state


async def test_an_event_beyond_the_last_one_is_out_of_range(side: CommandSide) -> None:
    execution_id = await side.created()
    last = (await side.reader.latest(execution_id)).state.seq
    assert (await side.reader.at_seq(execution_id, last)).state.seq == last
    with pytest.raises(SeqOutOfRangeError) as refused:
        await side.reader.at_seq(execution_id, last + 1)
    assert refused.value.details == {"seq": last + 1, "lastSeq": last}


async def test_reading_an_earlier_event_does_not_change_the_cached_state(
    side: CommandSide,
) -> None:
    execution_id = await side.created()
    await side.send(execution_id, StartNode(node_id="t"), key="k")
    latest = side.cache.get(execution_id)

    await side.reader.at_seq(execution_id, 2)

    assert side.cache.get(execution_id) is latest


async def test_a_state_that_is_one_commit_behind_costs_one_read(side: CommandSide) -> None:
    """Also if other executions have written since, which is the usual case."""
    execution_id = await side.created()
    other = CommandSide(side.broker)
    await other.created()
    await other.send(execution_id, StartNode(node_id="t"))
    async with read_requests(side.broker) as taken:
        logged = await side.reader.latest(execution_id)
        assert await taken() == ["one"]
    assert logged == await side.replayed(execution_id)
