"""Commits that another program has added: they follow in the log and say what cannot be."""

import json
from dataclasses import replace

import pytest

from executions.log.log_parts import CommandSide, store_graph, task
from executions.log.log_writer import LogWriter
from pyoco_gateway.executions.index.levels import OverdueExecution
from pyoco_gateway.executions.load_open_nodes import LoadOpenNodes
from pyoco_gateway.executions.read_execution import ExecutionQuery
from pyoco_gateway.executions.sweep import FindOverdue, Sweep
from pyoco_protocol.executions.commands import CancelExecution, StartNode
from pyoco_protocol.executions.commits import EventRecord
from pyoco_protocol.executions.instants import instant, milliseconds_of
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.problems import LogCorruptError
from pyoco_testkit.graph_documents import JsonObject, line
from stored_executions import StoredExecutions

BEGIN = "2026-11-18T03:15:27.123Z"
LAST = "9999-12-31T23:59:59.999Z"
START: tuple[str, JsonObject] = ("NODE_STARTED", {"nodeId": "t", "attempt": 1})
# A Wait that the graph of the execution does not have.
OTHER_NODE: list[tuple[str, JsonObject]] = [
    ("NODE_CREATED", {"nodeId": "other", "nodeType": "Wait"}),
    ("NODE_READY", {"nodeId": "other"}),
    ("NODE_STARTED", {"nodeId": "other", "attempt": 1}),
    ("NODE_WAITING", {"nodeId": "other", "deadlineAt": BEGIN}),
]


async def add(
    side: CommandSide, execution_id: str, *events: tuple[str, JsonObject], at: str | None = None
) -> None:
    """Add a commit with these events to the log."""
    writer = LogWriter(side.broker, await side.replayed(execution_id))
    records = tuple(EventRecord(*each) for each in events)
    record = replace(writer.record(()), events=records)
    await writer.store((record if at is None else replace(record, at=at)).to_bytes())


def finding(*execution_ids: str) -> FindOverdue:
    """Return what finds these executions for a sweep."""

    async def overdue(_: str, after: OverdueExecution | None, __: int) -> list[OverdueExecution]:
        found = [OverdueExecution(each, 0, key) for key, each in enumerate(execution_ids)]
        return found if after is None else []

    return overdue


async def test_a_command_is_refused_if_the_log_has_a_node_that_the_graph_lacks(
    side: CommandSide,
) -> None:
    execution_id = await side.created()
    await add(side, execution_id, *OTHER_NODE)
    for command in (StartNode(node_id="t"), StartNode(node_id="other"), CancelExecution()):
        with pytest.raises(LogCorruptError, match="its nodes are not those of its graph"):
            await side.send(execution_id, command)


async def test_all_open_nodes_of_such_an_execution_cannot_be_loaded(side: CommandSide) -> None:
    """The index handles this error. A KeyError would end the gateway."""
    execution_id = await side.created()
    await add(side, execution_id, *OTHER_NODE)
    with pytest.raises(LogCorruptError):
        await LoadOpenNodes(side.reader, side.graphs)(execution_id)


async def test_the_sweep_goes_on_after_such_an_execution(side: CommandSide, broker: Broker) -> None:
    damaged = await side.created()
    await add(side, damaged, *OTHER_NODE)
    await store_graph(broker, line(task(), deadlineSec=1), "timed")
    healthy = await side.created(graph_id="timed")
    later = CommandSide(broker, clock=lambda: milliseconds_of(LAST))

    await Sweep(finding(damaged, healthy), later.reader, later.graphs, later.send_command)()

    assert (await side.replayed(healthy)).state.status is ExecutionStatus.CANCELED


async def test_a_timer_ends_an_attempt_with_a_worker_id_that_no_request_could_have(
    side: CommandSide, broker: Broker
) -> None:
    execution_id = await side.created()
    name, payload = START
    await add(side, execution_id, (name, {**payload, "workerId": "w" * 200, "deadlineAt": BEGIN}))

    await Sweep(finding(execution_id), side.reader, side.graphs, side.send_command)()

    assert (await side.replayed(execution_id)).state.nodes["t"].status is NodeStatus.FAILED


@pytest.mark.parametrize("at", ["soon", "2026-02-31T00:00:00.000Z"])
async def test_a_time_that_is_none_damages_the_log(side: CommandSide, at: str) -> None:
    execution_id = await side.created()
    name, payload = START
    await add(side, execution_id, (name, {**payload, "deadlineAt": at}))
    with pytest.raises(LogCorruptError):
        await side.reader.latest(execution_id)


async def test_an_execution_at_the_end_of_the_calendar_can_be_canceled(side: CommandSide) -> None:
    execution_id = await side.created()
    await add(side, execution_id, START, at=LAST)
    await side.send(execution_id, CancelExecution())
    state = (await side.replayed(execution_id)).state
    assert (state.cancel_requested_at, state.nodes["t"].stop_deadline_at) == (LAST, LAST)


def test_no_time_is_after_the_end_of_the_calendar() -> None:
    assert instant(milliseconds_of(LAST)) == instant(milliseconds_of(LAST) + 1) == LAST


async def test_a_result_of_an_unknown_node_is_left_out(broker: Broker) -> None:
    executions = StoredExecutions(broker)
    execution_id = await executions.create()
    result = {"endNodeIds": ["done"], "from": ["other"]}
    await add(CommandSide(broker), execution_id, ("EXECUTION_COMPLETED", {"result": result}))
    view = await executions.reads.execution(
        execution_id, "default", ExecutionQuery(with_values=True)
    )
    assert json.loads(view)["result"] == {}
