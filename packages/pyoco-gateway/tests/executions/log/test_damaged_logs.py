"""Logs and checkpoints that were altered, or that another version wrote."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from executions.log.log_parts import NAMES, CommandSide
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.log.checkpoint_codec import checkpoint_of, state_in
from pyoco_protocol import subjects
from pyoco_protocol.executions.commands import (
    ArchiveExecution,
    CancelExecution,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.commits import EventRecord
from pyoco_protocol.executions.events import NodeStarted
from pyoco_protocol.problems import (
    ExecutionNotFoundError,
    LogCorruptError,
    LogTooNewError,
)

STARTED = NodeStarted(node_id="t", attempt=1)


async def writer_after(side: CommandSide, execution_id: str) -> LogWriter:
    return LogWriter(side.broker, await side.replayed(execution_id))


def corrupt(writer: LogWriter) -> bytes:
    """Return a commit that does not follow."""
    return writer.record([STARTED], prev_hash="0" * 64).to_bytes()


def too_new(writer: LogWriter) -> bytes:
    """Return a commit of a later version."""
    return writer.record([STARTED]).to_bytes().replace(b'"v":1', b'"v":2', 1)


def unknown_event(writer: LogWriter) -> bytes:
    """Return a commit with an event of a later version."""
    record = writer.record([STARTED])
    return replace(record, events=(EventRecord("NODE_PAUSED", {}),)).to_bytes()


DAMAGES: dict[str, tuple[Callable[[LogWriter], bytes], type[Exception]]] = {
    "does not follow": (corrupt, LogCorruptError),
    "is no commit": (lambda _: b"hello", LogCorruptError),
    "is of a later version": (too_new, LogTooNewError),
    "has an unknown event": (unknown_event, LogTooNewError),
}


@pytest.mark.parametrize(("make", "error"), DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("command", [StartNode(node_id="t"), SucceedNode(node_id="t")])
async def test_nothing_is_decided_after_a_commit_that(
    side: CommandSide,
    make: Callable[[LogWriter], bytes],
    error: type[Exception],
    is_cached: bool,
    command: StartNode | SucceedNode,
) -> None:
    """Neither an acceptance nor a rejection, with or without a cached state."""
    execution_id, other = await side.created(), await side.created()
    writer = await writer_after(side, execution_id)
    last = await writer.store(make(writer))
    if not is_cached:
        side.cache.drop(execution_id)

    with pytest.raises(error):
        await side.send(execution_id, command)

    stored = await side.log.last(execution_id)
    assert stored is not None
    assert stored.stream_seq == last
    # This execution only.
    assert (await side.send(other, StartNode(node_id="t"))).status == 202


async def test_a_damaged_commit_in_the_middle_is_named(side: CommandSide) -> None:
    execution_id = await side.created()
    writer = await writer_after(side, execution_id)
    writer.add(writer.record([STARTED]))
    await writer.flush()
    await writer.store(corrupt(writer))
    side.cache.drop(execution_id)
    with pytest.raises(LogCorruptError) as refused:
        await side.reader.latest(execution_id)
    assert refused.value.details["n"] == 3


async def test_events_before_a_damaged_commit_can_still_be_read(side: CommandSide) -> None:
    execution_id = await side.created()
    writer = await writer_after(side, execution_id)
    before = writer.logged
    # What follows it is not reached.
    writer.add(writer.record([STARTED]))
    record = writer.record([STARTED])
    await writer.store(corrupt(writer))
    await writer.store(record.to_bytes())
    side.cache.drop(execution_id)

    assert (await side.reader.at_seq(execution_id, before.state.seq)).state == before.state
    with pytest.raises(LogCorruptError):
        await side.reader.at_seq(execution_id, before.state.seq + 1)


@pytest.mark.parametrize(("make", "error"), DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("is_cached", [True, False])
async def test_another_tenant_does_not_learn_of_an_execution_whose_log(
    side: CommandSide,
    make: Callable[[LogWriter], bytes],
    error: type[Exception],
    is_cached: bool,
) -> None:
    execution_id = await side.created()
    writer = await writer_after(side, execution_id)
    await writer.store(make(writer))
    if not is_cached:
        side.cache.drop(execution_id)

    for command in (CancelExecution(), ArchiveExecution()):
        with pytest.raises(ExecutionNotFoundError):
            await side.send(execution_id, command, tenant="globex")
        with pytest.raises(error):
            await side.send(execution_id, command)


async def with_checkpoint(side: CommandSide, later: int = 1) -> tuple[LogWriter, bytes]:
    """Return an execution with a long log, and a checkpoint with so many commits after it."""
    execution_id = await side.created()
    await side.send(execution_id, StartNode(node_id="t"))
    writer = await writer_after(side, execution_id)
    writer.add_progress(20, events=100)
    await writer.flush()
    checkpoint = checkpoint_of(await side.replayed(execution_id))
    writer = await writer_after(side, execution_id)
    if later:
        writer.add_progress(later)
        await writer.flush()
    return writer, checkpoint


async def put_checkpoint(
    side: CommandSide, writer: LogWriter, data: bytes, before: int = 1
) -> None:
    seq = writer.logged.state.seq - before
    # The broker looks for it by this number, whatever number it contains.
    key = subjects.checkpoint_key(writer.logged.execution_id, seq)
    subject = subjects.kv_key(NAMES.checkpoints_bucket, key)
    await side.broker.client.jetstream().publish(subject, data)


def changed(data: bytes, **members: Any) -> bytes:
    return zlib.compress(json.dumps({**json.loads(zlib.decompress(data)), **members}).encode())


def other_state(data: bytes) -> bytes:
    state = json.loads(zlib.decompress(data))["state"]
    state["nodes"]["t"]["status"] = "SUCCEEDED"
    return changed(data, state=state, seq=state["seq"])


INVALID: dict[str, Callable[[bytes], bytes]] = {
    "of another version": lambda data: changed(data, v=2),
    "of another reducer": lambda data: changed(data, reducer=0),
    "with another hash": lambda data: changed(other_state(data), lastHash="0" * 64),
    "of another execution": lambda data: changed(data, executionId="c0de"),
    "with another number": lambda data: changed(other_state(data), n=3),
    "of another commit": lambda data: changed(other_state(data), streamSeq=1),
    "of no commit": lambda data: changed(other_state(data), streamSeq=10**9),
    "that is cut": lambda data: data[:-10],
    "that is garbage": lambda _: b"hello",
    "that is a bomb": lambda _: zlib.compress(b" " * (40 * 2**20), 9),
}


@pytest.mark.parametrize("change", INVALID.values(), ids=INVALID.keys())
@pytest.mark.parametrize("later", [0, 1], ids=["last commit", "earlier commit"])
async def test_the_log_is_replayed_without_a_checkpoint(
    side: CommandSide, change: Callable[[bytes], bytes], later: int
) -> None:
    writer, checkpoint = await with_checkpoint(side, later)
    await put_checkpoint(side, writer, change(checkpoint))
    execution_id = writer.logged.execution_id

    opened = CommandSide(side.broker)
    for logged in (
        await opened.reader.latest(execution_id),
        await opened.reader.at_seq(execution_id, writer.logged.state.seq),
    ):
        assert logged.state == (await side.replayed(execution_id)).state
    assert (await opened.send(execution_id, SucceedNode(node_id="t"))).status == 202


async def test_a_checkpoint_with_a_wrong_seq_does_not_damage_the_log(side: CommandSide) -> None:
    """The commit it names is right, so only the next commit shows it."""
    writer, checkpoint = await with_checkpoint(side)
    members = json.loads(zlib.decompress(checkpoint))
    wrong = changed(
        checkpoint, seq=members["seq"] + 3, state={**members["state"], "seq": members["seq"] + 3}
    )
    assert state_in(writer.logged.execution_id, wrong) is not None
    await put_checkpoint(side, writer, wrong)

    logged = await CommandSide(side.broker).reader.latest(writer.logged.execution_id)

    assert logged.state == (await side.replayed(writer.logged.execution_id)).state


async def test_a_valid_checkpoint_is_used(side: CommandSide) -> None:
    """The tests above would also pass if none ever was."""
    writer, checkpoint = await with_checkpoint(side)
    await put_checkpoint(side, writer, other_state(checkpoint))
    logged = await CommandSide(side.broker).reader.latest(writer.logged.execution_id)
    assert logged.state.nodes["t"].status.value == "SUCCEEDED"


async def test_an_older_checkpoint_is_used_if_newer_ones_are_invalid(side: CommandSide) -> None:
    writer, checkpoint = await with_checkpoint(side)
    await put_checkpoint(side, writer, other_state(checkpoint), before=3)
    await put_checkpoint(side, writer, changed(checkpoint, reducer=0), before=2)
    await put_checkpoint(side, writer, b"hello")
    logged = await CommandSide(side.broker).reader.latest(writer.logged.execution_id)
    assert logged.state.nodes["t"].status.value == "SUCCEEDED"


async def test_an_invalid_checkpoint_is_replaced_after_the_replay(side: CommandSide) -> None:
    """Otherwise each reader would replay the log again."""
    writer, checkpoint = await with_checkpoint(side, later=0)
    await put_checkpoint(side, writer, changed(checkpoint, reducer=0), before=0)
    execution_id = writer.logged.execution_id

    logged = await CommandSide(side.broker).reader.latest(execution_id)

    found = await side.checkpoints.newest(execution_id, logged.state.seq)
    assert found is not None
    assert state_in(execution_id, found[1]) == logged


async def test_an_older_checkpoint_does_not_replace_a_cached_state(side: CommandSide) -> None:
    writer, checkpoint = await with_checkpoint(side)
    await put_checkpoint(side, writer, other_state(checkpoint))
    execution_id = writer.logged.execution_id
    side.cache.put(await side.replayed(execution_id))
    writer = await writer_after(side, execution_id)
    writer.add_progress(11, events=100)
    await writer.flush()

    for logged in (
        await side.reader.latest(execution_id),
        await side.reader.at_seq(execution_id, writer.logged.state.seq),
    ):
        assert logged.state.nodes["t"].status.value == "RUNNING"


async def test_a_command_is_committed_although_no_checkpoint_can_be_stored(
    side: CommandSide,
) -> None:
    writer, _ = await with_checkpoint(side)
    await side.broker.client.jetstream().delete_stream(f"KV_{NAMES.checkpoints_bucket}")
    execution_id = writer.logged.execution_id
    side.cache.drop(execution_id)
    assert (await side.send(execution_id, SucceedNode(node_id="t"))).status == 202
