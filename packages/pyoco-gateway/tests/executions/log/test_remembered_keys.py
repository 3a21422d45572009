"""Idempotency keys in states: how many are remembered, also by a cold gateway."""

from dataclasses import replace
from random import Random

import pytest

from executions.log.log_parts import NAMES, CommandSide, keyed_request, path_of
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.log.logged_state import MAX_KEYS
from pyoco_protocol.executions.commands import (
    AnyCommand,
    PutNodeWaiting,
    ResumeNode,
    StartNode,
)
from pyoco_protocol.problems import (
    CommandRejectedError,
    ExecutionKeyReusedError,
    ExecutionNotFoundError,
    LogCorruptError,
)
from pyoco_testkit.graph_documents import JsonObject

START = StartNode(node_id="t")


# Each may be accepted again and again. Two of them have the same endpoint and other bodies.
TOGGLES: list[AnyCommand] = [
    PutNodeWaiting(node_id="t"),
    PutNodeWaiting(node_id="t", wait_key="k"),
    ResumeNode(node_id="t"),
    ResumeNode(node_id="t", resume_key="k"),
]


@pytest.mark.parametrize("seed", range(5))
async def test_l12_a_key_commits_once_per_endpoint_and_repeats_get_the_first_answer(
    side: CommandSide, seed: int
) -> None:
    """Random requests with few keys, through two gateways that do not follow each other."""
    rng = Random(seed)
    gateways = (side, CommandSide(side.broker))
    execution_id = await side.created()
    await side.send(execution_id, START, "start")
    first: dict[tuple[str, str], tuple[AnyCommand, JsonObject]] = {}
    repeats = 0
    for _ in range(80):
        command, key = rng.choice(TOGGLES), rng.choice("abcdef")
        request = (f"POST {path_of(execution_id, command)}", key)
        known, body = first.get(request, (None, {}))
        try:
            answer = await rng.choice(gateways).send(execution_id, command, key)
        except ExecutionKeyReusedError:
            assert known not in (None, command)
        except CommandRejectedError:
            assert known is None
        else:
            assert answer.is_replay is (known is not None)
            assert known in (None, command)
            if known is not None:
                assert answer.body == body
                repeats += 1
            elif answer.body["effect"] == "APPLIED":
                first[request] = (command, answer.body)
    commands = [each.command for each in (await side.commits(execution_id))[2:]]
    assert [(each.endpoint, each.idempotency_key) for each in commands] == list(first)
    assert repeats > 5


async def with_keyed_commits(side: CommandSide, count: int) -> str:
    """Return an execution with a start under the key `k` and so many keyed commits after it."""
    execution_id = await side.created()
    await side.send(execution_id, START, "k")
    writer = LogWriter(side.broker, await side.replayed(execution_id))
    for number in range(count):
        writer.add_keyed(number, endpoint=f"POST {path_of(execution_id, START)}")
    await writer.flush()
    return execution_id


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_key_is_remembered_for_4096_keyed_commits(
    side: CommandSide, is_cached: bool
) -> None:
    execution_id = await with_keyed_commits(side, MAX_KEYS - 1)
    gateway = side if is_cached else CommandSide(side.broker)
    assert (await gateway.send(execution_id, START, "k")).is_replay
    # One more keyed commit, and the guards decide.
    await gateway.send(execution_id, PutNodeWaiting(node_id="t"), "later")
    for each in (gateway, CommandSide(side.broker)):
        with pytest.raises(CommandRejectedError) as rejected:
            await each.send(execution_id, START, "k")
        assert rejected.value.reason == "NODE_ALREADY_STARTED"
        assert (await each.send(execution_id, PutNodeWaiting(node_id="t"), "later")).is_replay


async def test_keys_come_from_a_checkpoint(side: CommandSide) -> None:
    execution_id = await with_keyed_commits(side, 1600)
    # It writes a checkpoint, which the next one uses.
    await CommandSide(side.broker).reader.latest(execution_id)
    assert await side.checkpoints.newest(execution_id, 10**6) is not None
    assert (await CommandSide(side.broker).send(execution_id, START, "k")).is_replay


async def test_a_commit_without_a_key_leaves_none(side: CommandSide) -> None:
    execution_id = await side.created()
    writer = LogWriter(side.broker, await side.replayed(execution_id))
    writer.add_progress(5)
    await writer.flush()
    assert len((await side.reader.latest(execution_id)).keys.commits) == 1


@pytest.mark.parametrize("own", [True, False], ids=["another command", "another execution"])
async def test_a_key_that_leads_to_another_request_is_not_answered_with_its_result(
    side: CommandSide, own: bool
) -> None:
    """A checkpoint could name it. The bodies of the two requests are equal."""
    execution_id, other = await side.created(), await side.created()
    await side.send(execution_id if own else other, START, "other")
    logged = await side.reader.latest(execution_id if own else other)
    wrong = keyed_request(path_of(execution_id, START), "k", START)
    mine = await side.reader.latest(execution_id)
    mine.keys.add(wrong.digest, logged.stream_seq)

    with pytest.raises(LogCorruptError):
        await side.send(execution_id, START, "k")


async def test_a_key_of_a_purged_log_is_not_found(side: CommandSide) -> None:
    """The retention of the execution has ended, and the gateway still has its state."""
    js = side.broker.client.jetstream()
    config = (await js.stream_info(NAMES.execution_stream)).config
    await js.delete_stream(NAMES.execution_stream)
    await js.add_stream(replace(config, deny_purge=False))
    execution_id = await side.created()
    await side.send(execution_id, START, "k")
    logged = side.cache.get(execution_id)
    assert logged is not None
    await side.log.purge(execution_id, logged.stream_seq)
    with pytest.raises(ExecutionNotFoundError):
        await side.send(execution_id, START, "k")
