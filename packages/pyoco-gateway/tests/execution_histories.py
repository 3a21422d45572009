"""Executions in memory that are driven by commands, and random histories of such commands."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pyoco_gateway.executions.core.decisions import Decision
from pyoco_gateway.executions.core.due import due
from pyoco_gateway.executions.core.planning import Plan, plan, plan_creation
from pyoco_gateway.executions.core.reduce import Origin
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_gateway.graphs.pinned_graph import PinnedGraph
from pyoco_protocol.executions.actors import RUN_RESULTS, TIMER, Actor, ActorKind
from pyoco_protocol.executions.commands import (
    AnyCommand,
    ArchiveExecution,
    CancelExecution,
    CreateExecution,
    FailNode,
    PutNodeWaiting,
    ReportedError,
    ReportNodeProgress,
    RequestResumeNode,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import TaskNode
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_strategies import graph_documents

EXECUTION_ID = "c0de"
TENANT = "acme"
STOP_GRACE_SEC = 20.0
BEGIN = "2026-11-18T03:15:27.123Z"
PEOPLE = tuple(Actor(kind=ActorKind.USER, id=name) for name in ("ann", "bob", "cho"))
# `pytest --hypothesis-profile nightly` looks much longer.
EXAMPLES = 20_000 if settings.get_current_profile_name() == "nightly" else 1_000
# For tests of laws. Their time limit must grow with the number of examples.
MANY = settings(
    max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None, database=None
)
SOME = settings(MANY, max_examples=EXAMPLES // 5)
TIME_LIMIT_SEC = 120 * EXAMPLES // 1_000


@dataclass(frozen=True, slots=True)
class Commit:
    """One decided command with the states around it. Rejections have no events."""

    command: AnyCommand
    actor: Actor
    decision: Decision
    plan: Plan
    before: ExecutionState | None
    after: ExecutionState

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        return self.plan.events


@dataclass(slots=True)
class History:
    """An execution and everything that was asked of it."""

    graph: CompiledGraph
    commits: list[Commit] = field(default_factory=list)
    now: str = BEGIN
    state: ExecutionState = field(init=False)

    def events(self) -> Iterator[tuple[Commit, AnyEvent]]:
        for commit in self.commits:
            for event in commit.events:
                yield commit, event

    def create(self, *, start: bool = True, given: dict[str, Any] | None = None) -> Commit:
        command = CreateExecution(graph_id="g", input=given, start=start)
        planned = plan_creation(
            PinnedGraph(self.graph, "g", 1, 7),
            command,
            Origin(EXECUTION_ID, TENANT, PEOPLE[0], self.now),
            api_key_id=None,
            stop_grace_sec=STOP_GRACE_SEC,
        )
        return self._add(command, PEOPLE[0], planned, None)

    def do(self, command: AnyCommand, actor: Actor = PEOPLE[0]) -> Commit:
        before = self.state
        planned = plan(before, self.graph, command, actor, self.now, stop_grace_sec=STOP_GRACE_SEC)
        return self._add(command, actor, planned, before)

    def at(self, seconds: float) -> "History":
        """Set the clock to `seconds` after the beginning."""
        self.now = later(BEGIN, seconds)
        return self

    def tick(self) -> list[Commit]:
        """Fire all timers that are due."""
        return [self.do(command, TIMER) for command in due(self.state, self.graph, self.now)]

    def node(self, node_id: str) -> NodeState:
        return self.state.nodes[node_id]

    def change(self, **fields: Any) -> "History":
        """Put values into the state that would take many commands to reach."""
        self.state = replace(self.state, **fields)
        return self

    def change_node(self, node_id: str, **fields: Any) -> "History":
        """Put values into the state of one node."""
        node = replace(self.node(node_id), **fields)
        return self.change(nodes={**self.state.nodes, node_id: node})

    def _add(
        self, command: AnyCommand, actor: Actor, planned: Plan, before: ExecutionState | None
    ) -> Commit:
        assert planned.state is not None
        self.state = planned.state
        commit = Commit(command, actor, planned.decision, planned, before, planned.state)
        self.commits.append(commit)
        return commit


# The share of each command. Half of all steps move an open node on, as a worker would.
_KINDS = (
    *(["next"] * 16),
    *("start", "start", "succeed", "succeed", "fail", "request", "resume", "wait", "progress"),
    *("tick", "tick", "slow_tick", "start_execution", "cancel", "archive"),
)
_SECONDS = (*([0.0] * 6), 1.0, 1.0, 4.0, 9.0, 40.0)


def histories() -> st.SearchStrategy[History]:
    """Return a strategy for graphs with the history of one execution each.

    Hypothesis chooses the sizes and seeds, because random commands of its own rarely get far.
    """
    return st.builds(
        history_of, graph_documents(), st.integers(0, 2**32 - 1), st.sampled_from(range(5, 60))
    )


def history_of(document: dict[str, Any], seed: int, steps: int) -> History:
    """Return the history of `steps` random commands."""
    rng = Random(seed)
    history = History(validate_graph(document))
    history.create(start=rng.random() < 0.9, given={"flag": rng.choice((True, None))})
    after_end = 0
    for _ in range(steps):
        take(history, rng)
        after_end += history.state.status.is_terminal
        if after_end > 5:
            break
    return history


def take(history: History, rng: Random) -> None:
    """Do one random step."""
    history.now = later(history.now, rng.choice(_SECONDS))
    kind = rng.choice(_KINDS)
    match kind:
        case "tick":
            history.tick()
        case "slow_tick":
            # Another gateway commits between the firing of the timers and their commands.
            commands = due(history.state, history.graph, history.now)
            take(history, rng)
            for command in commands:
                history.do(command, TIMER)
        case "start_execution":
            history.do(StartExecution())
        case "cancel":
            history.do(CancelExecution(reason="enough"))
        case "archive":
            history.do(ArchiveExecution())
        case _:
            node = _chosen(history.state, rng)
            actor = _actor(history, node, rng)
            name = _next(node, rng) if kind == "next" else kind
            history.do(_node_command(name, node, actor, rng), actor)


def _next(node: NodeState, rng: Random) -> str:
    match node.status:
        case NodeStatus.RUNNING if node.retry_at is None:
            return rng.choice(("succeed", "succeed", "succeed", "succeed", "fail"))
        case NodeStatus.WAITING:
            return rng.choice(("resume", "request"))
        case _:
            return "start"


def _chosen(state: ExecutionState, rng: Random) -> NodeState:
    nodes = [node for node in state.nodes.values() if node.status.is_open]
    ready = [node for node in nodes if node.status is NodeStatus.READY]
    # Some commands go to nodes that are not open.
    if not nodes or rng.random() < 0.1:
        nodes = list(state.nodes.values())
    elif ready and rng.random() < 0.6:
        # So several attempts run at the same time.
        nodes = ready
    return rng.choice(nodes)


def _actor(history: History, node: NodeState, rng: Random) -> Actor:
    definition = history.graph.nodes[node.node_id]
    if isinstance(definition, TaskNode) and definition.run is not None and rng.random() < 0.8:
        return RUN_RESULTS
    return rng.choice(PEOPLE)


def _node_command(name: str, node: NodeState, actor: Actor, rng: Random) -> AnyCommand:
    is_next = node.retry_at is not None or node.status is NodeStatus.READY
    is_system = actor.kind is ActorKind.SYSTEM
    right = max(1, node.attempt + (is_next and (name == "start" or is_system)))
    by: dict[str, Any] = {
        "attempt": right + 1 if rng.random() < 0.1 else right,
        "worker_id": rng.choice(("w1", "w1", "w2")) if node.worker_id is None else node.worker_id,
    }
    if is_system:
        by["worker_id"] = f"run-{right}"
    elif rng.random() < 0.5:
        # A request may leave out both. The other worker is sometimes the wrong one.
        by = {"worker_id": "w2"} if rng.random() < 0.5 else {}
    node_id = node.node_id
    payload = rng.choice((None, {"ok": True}))
    key = "other" if rng.random() < 0.1 else node.wait_key
    match name:
        case "start":
            return StartNode(node_id=node_id, **by)
        case "succeed":
            output = rng.choice((None, {"ok": True}, {"ok": False, "rows": [1, None]}))
            return SucceedNode(node_id=node_id, output=output, **by)
        case "fail":
            code = rng.choice(("RUN_CANCELED", "BROKEN", "BROKEN", "HOPELESS"))
            error = rng.choice((None, ReportedError(code=code, message="it broke")))
            retryable = rng.random() < 0.8
            return FailNode(node_id=node_id, error=error, retryable=retryable, **by)
        case "request":
            return RequestResumeNode(node_id=node_id, resume_key=key, payload=payload)
        case "resume":
            return ResumeNode(node_id=node_id, resume_key=key, payload=payload)
        case "wait":
            wait_key, seconds = rng.choice((None, "k")), rng.choice((None, 5))
            return PutNodeWaiting(node_id=node_id, wait_key=wait_key, timeout_sec=seconds, **by)
        case _:
            return ReportNodeProgress(node_id=node_id, progress=40, **by)
