"""Executions as they are, as they were and as they will be."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pyoco_gateway.executions.event_pages import EventQuery
from pyoco_gateway.executions.log import state_reader
from pyoco_gateway.executions.read_execution import ExecutionQuery
from pyoco_gateway.executions.views import json_of
from pyoco_protocol.executions import commands as cmd
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.http.executions import ExecutionView
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import (
    CommandRejectedError,
    ExecutionNotFoundError,
    LogCorruptError,
    SeqNotReachedError,
    SeqOutOfRangeError,
)
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from stored_executions import ETL, LINE, StoredExecutions, fork_of, line_of, prepared

TENANT = "default"
APPROVAL = line_of(
    "{id: ok, type: Wait, wait: {key: k, prompt: {text: 'Ship ${input.order}?'}, approvals: 2}}"
)


@pytest.fixture
async def stored(broker: Broker) -> StoredExecutions:
    """Give the parts of a gateway with a fresh broker."""
    return await prepared(broker)


async def read(stored: StoredExecutions, execution_id: str, **query: Any) -> ExecutionView:
    text = await stored.reads.execution(execution_id, TENANT, ExecutionQuery(**query))
    return ExecutionView.model_validate_json(text)


def node(view: ExecutionView, node_id: str) -> dict[str, Any]:
    return next(each.to_wire() for each in view.nodes if each.node_id == node_id)


async def test_what_another_gateway_has_committed_is_in_the_next_read(
    stored: StoredExecutions,
) -> None:
    one, two = stored, StoredExecutions(stored.broker)
    execution_id = await one.create()
    before = await read(two, execution_id)
    await one.send(execution_id, cmd.StartNode(node_id="t", worker_id="w"), ETL)
    # Nothing tells the second gateway: its cached state is behind.
    after = await read(two, execution_id)
    assert node(before, "t")["status"] == "READY"
    assert node(after, "t") | {"workerId": "w", "attempt": 1, "status": "RUNNING"} == node(
        after, "t"
    )
    assert (await two.state(execution_id)).last_hash == after.last_hash


async def rich(stored: StoredExecutions) -> str:
    """Return an execution whose commits have one event and many, and that has ended."""
    execution_id = await stored.create(fork_of("a", "b", "c"), given={"order": 7})
    await stored.work(execution_id, "a", {"rows": [1, None]})
    await stored.send(execution_id, cmd.StartNode(node_id="b"))
    await stored.send(execution_id, cmd.PutNodeWaiting(node_id="b", wait_key="k"))
    await stored.send(execution_id, cmd.ResumeNode(node_id="b", resume_key="k"))
    await stored.send(execution_id, cmd.SucceedNode(node_id="b"))
    await stored.work(execution_id, "c", {})
    await stored.send(execution_id, cmd.ArchiveExecution())
    return execution_id


@pytest.mark.parametrize("has_checkpoints", [False, True])
async def test_every_earlier_state_has_the_same_bytes_for_ever(
    stored: StoredExecutions, monkeypatch: pytest.MonkeyPatch, has_checkpoints: bool
) -> None:
    broker = stored.broker
    execution_id = await rich(stored)
    commits = await stored.records(execution_id)
    ends = {record.last_seq for record in commits}
    seqs = range(1, max(ends) + 1)
    assert ends < set(seqs), "no event is in the middle of a commit"
    first = {seq: await bytes_at(StoredExecutions(broker), execution_id, seq) for seq in seqs}
    assert len(set(first.values())) == len(seqs)

    if has_checkpoints:
        monkeypatch.setattr(state_reader, "_MANY_EVENTS", 0)
        for seq in ends:
            reached = await StoredExecutions(broker).reader.at_seq(execution_id, seq)
            await stored.reader.write_checkpoint(reached)
        assert (await stored.checkpoints.newest(execution_id, max(seqs)) or (0,))[0] == max(seqs)

    for cached_seq in (None, *sorted(ends)):
        warm = StoredExecutions(broker)
        if cached_seq is not None:
            warm.cache.put(await warm.reader.at_seq(execution_id, cached_seq))
        for seq in seqs:
            assert await bytes_at(warm, execution_id, seq) == first[seq]


async def test_the_latest_state_is_what_it_will_have_been(stored: StoredExecutions) -> None:
    execution_id = await stored.create()
    told = []
    for command in (
        cmd.StartNode(node_id="t", worker_id="w"),
        cmd.ReportNodeProgress(node_id="t", progress=40, message="almost"),
        cmd.SucceedNode(node_id="t", output={"rows": 7}),
        cmd.ArchiveExecution(reason="done"),
    ):
        await stored.send(execution_id, command)
        told.append(await read(stored, execution_id, with_values=True))
    cold = StoredExecutions(stored.broker)
    for view in told:
        later = await read(cold, execution_id, at_seq=view.seq, with_values=True)
        assert json_of(later) == json_of(view)


async def bytes_at(stored: StoredExecutions, execution_id: str, seq: int) -> str:
    return json_of(await read(stored, execution_id, at_seq=seq, with_values=True))


async def test_a_state_beyond_the_last_event_is_out_of_range(stored: StoredExecutions) -> None:
    execution_id = await stored.create()
    last = (await read(stored, execution_id)).seq
    assert (await read(stored, execution_id, at_seq=last)).seq == last
    with pytest.raises(SeqOutOfRangeError) as refused:
        await read(stored, execution_id, at_seq=last + 1)
    assert refused.value.details == {"seq": last + 1, "lastSeq": last}


@pytest.mark.parametrize("query", [{}, {"at_seq": 1}, {"at_seq": 999}, {"min_seq": 1}])
async def test_an_execution_of_another_tenant_is_unknown(
    stored: StoredExecutions, query: dict[str, Any]
) -> None:
    execution_id = await stored.create(tenant="other")
    with pytest.raises(ExecutionNotFoundError):
        await read(stored, execution_id, **query)


async def test_a_damaged_execution_of_another_tenant_is_unknown(stored: StoredExecutions) -> None:
    execution_id = await stored.create(tenant="other")
    await stored.send(execution_id, cmd.StartNode(node_id="t"))
    [first, second] = await stored.bodies(execution_id)
    copy = await stored.copy(execution_id, [first, second.replace(b'"n":2', b'"n":3')])
    with pytest.raises(LogCorruptError):
        await copy.reads.execution(execution_id, "other", ExecutionQuery())
    with pytest.raises(ExecutionNotFoundError):
        await read(copy, execution_id)


@pytest.mark.parametrize("execution_id", ["*", ">", "a.b", "none", "c0de" * 8, "A" * 5000])
async def test_an_invalid_id_is_unknown_without_a_question_to_the_broker(
    stored: StoredExecutions, nats_server: NatsServer, execution_id: str
) -> None:
    await stored.create()
    nats_server.kill()
    await eventually(lambda: stored.broker.is_up, False)
    with pytest.raises(ExecutionNotFoundError) as refused:
        await read(stored, execution_id)
    assert len(str(refused.value)) < 200


async def test_a_read_waits_until_the_execution_has_an_event(stored: StoredExecutions) -> None:
    one, two = stored, StoredExecutions(stored.broker)
    execution_id = await one.create()
    seq = (await read(one, execution_id)).seq
    found: list[ExecutionView] = []

    async def wait() -> None:
        found.append(await read(two, execution_id, min_seq=seq + 2, wait_sec=30))

    async with two.following(), anyio.create_task_group() as tasks:
        # Less than the wait may take.
        tasks.cancel_scope.deadline = anyio.current_time() + 15
        tasks.start_soon(wait)
        await one.send(execution_id, cmd.StartNode(node_id="t"))
        await eventually(lambda: two.cache.get(execution_id) is not None, True)
        assert not found
        await one.send(execution_id, cmd.SucceedNode(node_id="t"))
    assert found[0].status.value == "COMPLETED"


@pytest.mark.parametrize("wait_sec", [0, 0.05])
async def test_an_event_that_does_not_come_in_time_is_not_reached(
    stored: StoredExecutions, wait_sec: float
) -> None:
    execution_id = await stored.create()
    seq = (await read(stored, execution_id)).seq
    assert (await read(stored, execution_id, min_seq=seq, wait_sec=wait_sec)).seq == seq
    with pytest.raises(SeqNotReachedError) as refused:
        await read(stored, execution_id, min_seq=seq + 1, wait_sec=wait_sec)
    assert refused.value.details == {"minSeq": seq + 1, "lastSeq": seq}


async def test_a_wait_ends_before_the_time_of_the_request_does(broker: Broker) -> None:
    await prepared(broker)
    stored = StoredExecutions(broker, request_timeout_sec=0.2)
    execution_id = await stored.create()
    with anyio.fail_after(5), pytest.raises(SeqNotReachedError):
        await read(stored, execution_id, min_seq=999, wait_sec=30)


async def test_values_are_read_from_the_log(stored: StoredExecutions) -> None:
    execution_id = await stored.create(fork_of("a", "b"), given={"order": {"id": None}})
    await stored.work(execution_id, "a", {"rows": [1, None, 2.5], "text": "é"})
    plain = await read(stored, execution_id)
    assert plain.input is None
    assert "output" not in node(plain, "a")
    full = await read(stored, execution_id, with_values=True)
    assert full.input == {"order": {"id": None}}
    assert node(full, "a")["output"] == {"rows": [1, None, 2.5], "text": "é"}
    assert "output" not in node(full, "b")
    assert "result" not in full.to_wire()

    await stored.work(execution_id, "b", None)
    ended = await read(stored, execution_id, with_values=True)
    assert ended.result == {
        "join": {"succeeded": 2, "failed": 0, "canceled": 0, "skipped": 0, "pending": 0}
    }
    earlier = await read(stored, execution_id, with_values=True, at_seq=1)
    assert (earlier.input, earlier.nodes) == (full.input, ())


async def test_values_beyond_4_mib_are_given_by_their_events(stored: StoredExecutions) -> None:
    names = [f"t{i}" for i in range(70)]
    execution_id = await stored.create(fork_of(*names), given={"order": "po-7"})
    for name in reversed(names):
        await stored.work(execution_id, name, {"name": name, "text": "x" * 65_000})
    text = await values_of(stored, execution_id)
    assert 4_000_000 < len(text) < 4_400_000
    view = ExecutionView.model_validate_json(text)
    assert view.input == {"order": "po-7"}
    assert view.result == {
        "join": {"succeeded": 70, "failed": 0, "canceled": 0, "skipped": 0, "pending": 0}
    }
    outputs = [node(view, name)["output"] for name in names]
    whole = [output["name"] for output in outputs if "name" in output]
    assert whole == names[: len(whole)]
    for name, output in zip(names[len(whole) :], outputs[len(whole) :], strict=True):
        assert output.keys() == {"$truncated", "seq"}
        query = EventQuery(output["seq"] - 1, 1)
        (event,) = (await stored.reads.events(execution_id, TENANT, query)).items
        assert event.payload["output"]["name"] == name
    # Another gateway leaves out the same ones.
    assert await values_of(StoredExecutions(stored.broker), execution_id) == text


async def test_few_requests_at_once_hold_values(stored: StoredExecutions) -> None:
    execution_id = await stored.create(given={"order": "po-7"})
    turns = stored.reads.execution.with_values
    held: list[float] = []

    async def look() -> None:
        while True:
            held.append(turns.borrowed_tokens)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as watching:
        watching.start_soon(look)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(values_of, stored, execution_id)
        watching.cancel_scope.cancel()
    assert max(held) == 2


async def values_of(stored: StoredExecutions, execution_id: str) -> str:
    query = ExecutionQuery(with_values=True)
    return await stored.reads.execution(execution_id, TENANT, query)


async def test_the_result_has_a_null_for_a_node_without_output(stored: StoredExecutions) -> None:
    execution_id = await stored.create(LINE)
    await stored.work(execution_id, "t", None)
    assert (await read(stored, execution_id, with_values=True)).result == {"t": None}


async def test_a_late_result_is_among_the_values(stored: StoredExecutions) -> None:
    execution_id = await stored.create()
    await stored.send(execution_id, cmd.StartNode(node_id="t"))
    await stored.send(execution_id, cmd.CancelExecution(reason="enough"))
    with pytest.raises(CommandRejectedError):
        await stored.send(execution_id, cmd.SucceedNode(node_id="t", output={"rows": 7}))
    view = await read(stored, execution_id, with_values=True)
    assert (view.status.value, view.cancel_reason) == ("CANCELED", "enough")
    assert node(view, "t")["lateOutcome"] == "SUCCEEDED"
    assert node(view, "t")["lateResult"] == {"outcome": "SUCCEEDED", "output": {"rows": 7}}
    assert "result" not in view.to_wire()


async def test_a_value_that_is_not_in_its_place_is_a_damaged_log(stored: StoredExecutions) -> None:
    execution_id, other = await stored.create(), await stored.create()
    for each in (execution_id, other):
        await stored.work(each, "t", {"rows": 7})
    logged = await stored.state(execution_id)
    output_at = logged.state.nodes["t"].output_at
    # The same event of another execution.
    of_other = (await stored.state(other)).state.nodes["t"].output_at
    assert output_at is not None
    for wrong in (
        of_other,
        output_at._replace(stream=10**9),
        output_at._replace(seq=output_at.seq + 100),
    ):
        logged.state.nodes["t"].output_at = wrong
        with pytest.raises(LogCorruptError):
            await stored.reads.execution.describe(logged, with_values=True)


async def test_a_wait_shows_its_approvals_and_its_prompt(stored: StoredExecutions) -> None:
    execution_id = await stored.create(APPROVAL, given={"order": "po-7"})
    waiting = node(await read(stored, execution_id, with_values=True), "ok")
    assert waiting["status"] == "WAITING"
    assert waiting["approvals"] == {"needed": 2, "given": 0, "by": []}
    assert waiting["prompt"] == {"text": "Ship po-7?"}
    for name in ("ann", "bob"):
        person = Actor(kind=ActorKind.USER, id=name)
        request = cmd.RequestResumeNode(node_id="ok", resume_key="k")
        await stored.send(execution_id, request, person)
    resumed = node(await read(stored, execution_id, with_values=True), "ok")
    assert resumed["status"] == "SUCCEEDED"
    assert resumed["approvals"] == {"needed": 2, "given": 2, "by": ["ann", "bob"]}
    assert "prompt" not in resumed
