"""What a graph promises when it is accepted: each of its commits fits a message of the broker."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from execution_histories import BEGIN, STOP_GRACE_SEC, History, histories
from pyoco_gateway.executions.core.decisions import Accepted, Late
from pyoco_gateway.executions.core.head import head_of
from pyoco_gateway.executions.core.planning import Plan, plan, plan_creation
from pyoco_gateway.executions.core.reduce import Origin
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.commands import (
    AnyCommand,
    CancelExecution,
    CreateExecution,
    FailNode,
    ReportedError,
    RequestResumeNode,
    StartNode,
)
from pyoco_protocol.executions.commits import CommandRecord, CommitRecord, EventRecord
from pyoco_protocol.executions.statuses import ExecutionStatus, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.texts import read_texts
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_protocol.graphs.weight import MAX_WORKER_BYTES, weight_of
from pyoco_testkit.graph_documents import JsonObject, edges_of

MAX_MESSAGE = 1_048_576
# What the adapter keeps free for the headers of a message.
HEADERS = 256
MAX_HEAD = 60_000
MAX_VALUE = 65_536
# The fields of fixed size: they are in the events of few nodes, and no user can make them longer.
FIXED = 6_000
# JSON needs six bytes for each of these.
WORST = "\x01"
EVENT_ID = 40
EXECUTION_ID = "c0de0000-0000-4000-8000-000000000000"
# The actor of the longest name that a key may have.
ANN = Actor(kind=ActorKind.USER, id=WORST * 64)
LABELS = tuple(WORST * 63 + str(i) for i in range(10))


def name(kind: str, index: int) -> str:
    """Return the longest id that a node may have."""
    return f"{kind}{index}_".ljust(EVENT_ID, "x")


START: JsonObject = {"id": name("start", 0), "type": "Start"}
DONE: JsonObject = {"id": name("done", 0), "type": "Success"}


def fanned_out(
    nodes: list[JsonObject], branches: list[str], into: str, first: str
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return nodes and edges that lead from `first` through Forks to all branches, and on."""
    forks: list[JsonObject] = []
    edges: list[JsonObject] = []
    level = list(branches)
    while len(level) > 1:
        above = []
        for start in range(0, len(level), 100):
            group = level[start : start + 100]
            if len(group) == 1:
                above += group
                continue
            fork = name("fork", len(forks))
            forks.append({"id": fork, "type": "Fork"})
            edges += [{"from": fork, "to": target} for target in group]
            above.append(fork)
        level = above
    edges += edges_of(first, level[0])
    # A Join takes 100 edges; an end takes any number.
    level = list(branches)
    joins: list[JsonObject] = []
    while len(level) > 100:
        below = []
        for start in range(0, len(level), 100):
            group = level[start : start + 100]
            join = name("join", len(joins))
            joins.append({"id": join, "type": "Join", "policy": "ALL_DONE"})
            edges += [{"from": source, "to": join} for source in group]
            below.append(join)
        level = below
    edges += [{"from": source, "to": into} for source in level]
    return [*nodes, *forks, *joins], edges


def heaviest(build: Callable[[int], JsonObject], most: int) -> CompiledGraph:
    """Return the largest graph of a kind that is accepted."""
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            validate_graph(build(middle))
        except GraphInvalidError:
            high = middle
        else:
            low = middle
    return validate_graph(build(low))


def weight(graph: CompiledGraph) -> int:
    document = graph.document
    texts, _ = read_texts(document.nodes, document.edges)
    return weight_of(document.nodes, document.edges, texts)


def events_of(done: Plan) -> list[JsonObject]:
    events = [{"type": each.type, "payload": each.wire_payload()} for each in done.decided]
    return events + [
        {"type": each.event.type, "payload": each.event.wire_payload(), "cause": each.cause}
        for each in done.followed
    ]


def size_of_events(done: Plan) -> int:
    return len(json.dumps(events_of(done), ensure_ascii=False, separators=(",", ":")).encode())


def check(done: Plan, graph: CompiledGraph, command: AnyCommand, *, values: int) -> ExecutionState:
    """Check the size of a commit, `values` of which come from the request; return the state."""
    assert done.state is not None
    assert isinstance(done.decision, Accepted | Late)
    assert size_of_events(done) <= weight(graph) + values + FIXED
    record = record_of(done, graph, command)
    assert len(canonical_json(record.head)) <= MAX_HEAD
    assert len(record.to_bytes()) + HEADERS <= MAX_MESSAGE
    return done.state


def record_of(done: Plan, graph: CompiledGraph, command: AnyCommand) -> CommitRecord:
    """Return the record of a commit whose request has the longest headers."""
    assert done.state is not None
    key, correlation_id = "é" * 255, "é" * 128
    endpoint = f"POST /executions/{EXECUTION_ID}/nodes/{'n' * 40}/resume-request"
    body = {
        "executionId": EXECUTION_ID,
        "command": command.name,
        "accepted": True,
        "effect": "APPLIED",
        "correlationId": correlation_id,
        "idempotencyKey": key,
        "seq": done.state.seq,
        "status": "ACTIVE",
        "graphId": "g" * 64,
        "graphVersion": 999_999,
    }
    return CommitRecord(
        commit_id=EXECUTION_ID,
        execution_id=EXECUTION_ID,
        tenant_id="t" * 64,
        n=200_000,
        first_seq=199_999,
        at=done.state.last_at,
        prev_hash="0" * 64,
        command=CommandRecord(
            name=command.name,
            actor=ANN,
            node_id="n" * 40,
            correlation_id=correlation_id,
            endpoint=endpoint,
            idempotency_key=key,
            request_hash="0" * 64,
        ),
        events=tuple(
            EventRecord(each["type"], each["payload"], each.get("cause"))
            for each in events_of(done)
        ),
        head=head_of(done.state, graph, 200_000),
        answer={"status": 202, "body": body},
    )


def create(graph: CompiledGraph, given: JsonObject | None = None) -> ExecutionState:
    """Start an execution with its first commit; check the commit and return the state."""
    command = CreateExecution(graph_id="g" * 64, input=given, labels=LABELS, start=True)
    done = plan_creation(
        PinnedGraph(graph, "g" * 64, 999_999, 10**9),
        command,
        Origin(EXECUTION_ID, "t" * 64, ANN, BEGIN),
        api_key_id="k" * 64,
        stop_grace_sec=STOP_GRACE_SEC,
    )
    labels = sum(len(canonical_json(label)) for label in LABELS)
    return check(done, graph, command, values=2 * len(canonical_json(given or {})) + labels)


def act(
    state: ExecutionState, graph: CompiledGraph, command: AnyCommand, *, values: int
) -> ExecutionState:
    """Do a command; check the commit and return the state after it."""
    done = plan(state, graph, command, ANN, BEGIN, stop_grace_sec=STOP_GRACE_SEC)
    return check(done, graph, command, values=values)


def cancel(state: ExecutionState, graph: CompiledGraph) -> ExecutionState:
    reason = WORST * 1000
    return act(state, graph, CancelExecution(reason=reason), values=2 * 6 * len(reason))


def approve(state: ExecutionState, graph: CompiledGraph, payload: JsonObject) -> ExecutionState:
    """Send the largest request that resumes a node: its payload is in three events."""
    command = RequestResumeNode(
        node_id=name("gate", 0), payload=payload, comment=WORST * 1000, resume_key=WORST * 200
    )
    return act(state, graph, command, values=4 * len(canonical_json(payload)) + 6 * 1200)


def filled(value: JsonObject) -> JsonObject:
    """Return a value that is as large as a value may be."""
    room = MAX_VALUE - len(canonical_json({**value, "rest": ""}))
    return {**value, "rest": "r" * room}


# 42 texts of 256 control characters are all that fits a value.
TEXTS = {f"f{i}": WORST * 256 for i in range(42)}


def waits(count: int, *, references: int, approvers: int) -> JsonObject:
    """Return a graph in which one approval starts waits that show what the approver sent."""
    paths = [f"${{nodes.{name('gate', 0)}.output.f{i}}}" for i in range(42)]
    wait: JsonObject = {
        "key": "".join(paths[:3]),
        "prompt": {"texts": paths[:references], "text": "".join(paths[:references])},
        "timeoutSec": 60,
    }
    if approvers:
        wait |= {"approvals": 20, "approvers": [f"{i:03d}" + WORST * 9 for i in range(approvers)]}
    gate: JsonObject = {"id": name("gate", 0), "type": "Wait", "wait": {"approvals": 1}}
    branches = [name("wait", i) for i in range(count)]
    nodes = [START, gate, DONE, *({"id": each, "type": "Wait", "wait": wait} for each in branches)]
    nodes, edges = fanned_out(nodes, branches, DONE["id"], gate["id"])
    return {"nodes": nodes, "edges": [*edges, *edges_of(START["id"], gate["id"])]}


@pytest.mark.parametrize(("references", "approvers"), [(0, 0), (1, 0), (42, 0), (0, 100), (3, 30)])
def test_an_approval_that_is_shown_in_many_prompts_and_keys_fits(
    references: int, approvers: int
) -> None:
    graph = heaviest(lambda n: waits(n, references=references, approvers=approvers), 990)
    state = approve(create(graph), graph, filled(TEXTS))
    assert sum(node.status is NodeStatus.WAITING for node in state.nodes.values()) > 3
    assert cancel(state, graph).status is ExecutionStatus.CANCELED


LONG = "p" * 460
LONG_PATHS = [f"output.{LONG}.a{i}" for i in range(100)]
# As many facts with long names as a graph may read.
LONG_NAMES = {LONG: {f"a{i}": WORST * 256 if i < 40 else i for i in range(100)}}


def race(count: int) -> JsonObject:
    """Return a graph in which one approval stops many tasks."""
    gate, join, first = name("gate", 0), name("race", 0), name("first", 0)
    ends = [name("end", i) for i in range(50)]
    branches = [name("task", i) for i in range(count)]
    nodes: list[JsonObject] = [
        START,
        {"id": first, "type": "Fork"},
        {"id": gate, "type": "Wait", "wait": {"approvals": 1}},
        {"id": join, "type": "Join", "policy": "ANY_SUCCESS"},
        DONE,
        *({"id": end, "type": "Failed"} for end in ends),
        *({"id": branch, "type": "Task"} for branch in branches),
    ]
    nodes, edges = fanned_out(nodes, branches, join, first)
    edges += edges_of(START["id"], first, gate)
    edges += [
        {"from": gate, "to": end, "when": f"exists({one}) and exists({other}) and 1 == 2"}
        for end, one, other in zip(ends, LONG_PATHS[::2], LONG_PATHS[1::2], strict=True)
    ]
    edges += edges_of(gate, join, DONE["id"])
    return {"nodes": nodes, "edges": edges}


def with_running_tasks(graph: CompiledGraph, worker_id: str) -> ExecutionState:
    state = create(graph)
    for node_id in graph.node_ids:
        if node_id.startswith("task"):
            command = StartNode(node_id=node_id, worker_id=worker_id)
            done = plan(state, graph, command, ANN, BEGIN, stop_grace_sec=STOP_GRACE_SEC)
            assert done.state is not None
            state = done.state
    return state


@pytest.mark.parametrize(
    "worker_id",
    [
        pytest.param("🔧" * (MAX_WORKER_BYTES // 4), id="the longest that an interrupt names"),
        pytest.param(WORST * 128, id="the longest that a worker may have"),
    ],
)
def test_the_stop_of_many_running_tasks_fits(worker_id: str) -> None:
    graph = heaviest(race, 940)
    state = with_running_tasks(graph, worker_id)
    for payload in (filled(LONG_NAMES), {}):
        after = approve(state, graph, payload)
        assert sum(node.is_interrupted for node in after.nodes.values()) > 600
    cancel(state, graph)
    error = ReportedError(
        code=WORST * 64, message=WORST * 2000, detail={"text": "d" * (16_384 - 11)}
    )
    sizes = 16_384 + 3 * 6 * 64 + 6 * (2000 + 2 * 300)
    act(state, graph, FailNode(node_id=name("gate", 0), error=error), values=sizes)


def gates(count: int, *, forks: int) -> JsonObject:
    """Return a graph whose Joins all pass in one commit; each Join has a branch of each Fork."""
    first = name("first", 0)
    nodes: list[JsonObject] = [START, {"id": first, "type": "Fork"}, DONE]
    edges = edges_of(START["id"], first)
    for group in range(0, count, 20):
        sources = [name("fork", group * 100 + i) for i in range(forks)]
        joins = [name("join", i) for i in range(group, group + 20)]
        nodes += [{"id": each, "type": "Fork"} for each in sources]
        nodes += [{"id": each, "type": "Join"} for each in joins]
        edges += [{"from": first, "to": each} for each in sources]
        edges += [{"from": source, "to": join} for source in sources for join in joins]
        edges += [{"from": each, "to": DONE["id"]} for each in joins]
    return {"nodes": nodes, "edges": edges}


@pytest.mark.parametrize("forks", [2, 80])
def test_a_start_in_which_all_joins_pass_fits(forks: int) -> None:
    graph = heaviest(lambda n: gates(n, forks=forks), 640)
    for value in (filled(TEXTS), None):
        assert create(graph, value).status is ExecutionStatus.COMPLETED


READY_AT_ONCE: dict[str, JsonObject] = {
    "Task": {"type": "Task"},
    "Wait": {"type": "Wait", "wait": {"approvals": 20, "timeoutSec": 60}},
}


def stopped(count: int, *, kind: str) -> JsonObject:
    """Return a graph that lets nodes begin and cancels itself in the same commit."""
    stop = {"id": name("stop", 0), "type": "Canceled", "reason": WORST * 200}
    branches = [name("node", i) for i in range(count)]
    nodes: list[JsonObject] = [
        START,
        {"id": name("first", 0), "type": "Fork"},
        *({"id": each, **READY_AT_ONCE[kind]} for each in branches),
        stop,
        DONE,
    ]
    nodes, edges = fanned_out(nodes, branches, DONE["id"], name("first", 0))
    edges += edges_of(START["id"], name("first", 0), stop["id"])
    return {"nodes": nodes, "edges": edges}


@pytest.mark.parametrize("kind", READY_AT_ONCE)
def test_a_start_that_cancels_everything_again_fits(kind: str) -> None:
    graph = heaviest(lambda n: stopped(n, kind=kind), 960)
    for value in (filled(TEXTS), None):
        state = create(graph, value)
        assert state.status is ExecutionStatus.CANCELED
        assert {node.ready_at is None for node in state.nodes.values()} == {True, False}


def test_a_thousand_tasks_are_not_too_heavy() -> None:
    ids = ["start", *(f"task{i}" for i in range(998)), "done"]
    nodes = [{"id": each, "type": "Task"} for each in ids]
    nodes[0]["type"], nodes[-1]["type"] = "Start", "Success"
    document: JsonObject = {"nodes": nodes, "edges": edges_of(*ids)}
    graph = validate_graph(document)
    assert cancel(create(graph, filled(TEXTS)), graph).status is ExecutionStatus.CANCELED


@settings(max_examples=300, deadline=None)
@given(histories())
def test_the_events_of_no_commit_are_larger_than_the_weight_of_the_graph(history: History) -> None:
    allowed = weight(history.graph) + FIXED // 4
    for commit in history.commits:
        assert size_of_events(commit.plan) <= allowed
