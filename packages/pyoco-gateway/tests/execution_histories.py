"""Random histories of executions: any commands, in any order, at any time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from pyoco_gateway.executions.core.create import PinnedGraph
from pyoco_gateway.executions.core.decisions import Decision
from pyoco_gateway.executions.core.due import due
from pyoco_gateway.executions.core.planning import Plan, plan, plan_creation
from pyoco_gateway.executions.core.reduce import Origin
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
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
from pyoco_protocol.graphs.document import NodeType
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_strategies import graph_documents

STOP_GRACE_SEC = 20.0
BEGIN = "2026-11-18T03:15:27.123Z"
PEOPLE = tuple(Actor(kind=ActorKind.USER, id=name) for name in ("ann", "bob", "cho"))
# `pytest --hypothesis-profile nightly` looks much longer.
EXAMPLES = 20_000 if settings.get_current_profile_name() == "nightly" else 1_000


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

    @property
    def state(self) -> ExecutionState:
        return self.commits[-1].after

    def events(self) -> Iterator[tuple[Commit, AnyEvent]]:
        for commit in self.commits:
            for event in commit.events:
                yield commit, event

    def create(self, *, start: bool, flag: bool | None = True) -> Commit:
        command = CreateExecution(graph_id="g", input={"flag": flag}, start=start)
        origin = Origin("c0de", "acme", PEOPLE[0], self.now)
        pinned = PinnedGraph(self.graph, "g", 1, 7)
        planned = plan_creation(
            pinned, command, origin, api_key_id=None, stop_grace_sec=STOP_GRACE_SEC
        )
        return self._add(command, PEOPLE[0], planned, None)

    def do(self, command: AnyCommand, actor: Actor = PEOPLE[0]) -> Commit:
        before = self.state
        planned = plan(before, self.graph, command, actor, self.now, stop_grace_sec=STOP_GRACE_SEC)
        return self._add(command, actor, planned, before)

    def tick(self) -> None:
        """Fire all timers that are due."""
        for command in due(self.state, self.graph, self.now):
            self.do(command, TIMER)

    def _add(
        self, command: AnyCommand, actor: Actor, planned: Plan, before: ExecutionState | None
    ) -> Commit:
        assert planned.state is not None
        commit = Commit(command, actor, planned.decision, planned, before, planned.state)
        self.commits.append(commit)
        return commit


# The share of each command. Half of all steps move an open node on, as a worker would.
_KINDS = (
    *(["next"] * 16),
    *("start", "succeed", "succeed", "fail", "fail", "request", "resume", "wait", "progress"),
    *("tick", "tick", "tick", "start_execution", "cancel", "archive"),
)
_SECONDS = (0.0, 0.0, 0.0, 1.0, 9.0, 40.0)


def histories() -> st.SearchStrategy[History]:
    """Return a strategy for graphs with the history of one execution each.

    Hypothesis chooses the sizes and seeds, because random commands of its own rarely get far.
    """
    return st.builds(
        history_of, graph_documents(), st.integers(0, 2**32 - 1), st.sampled_from(range(60))
    )


def history_of(document: dict[str, Any], seed: int, steps: int) -> History:
    """Return the history of `steps` random commands."""
    rng = Random(seed)
    history = History(validate_graph(document))
    history.create(start=rng.random() < 0.9, flag=rng.choice((True, None)))
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
        case "start_execution":
            history.do(StartExecution())
        case "cancel":
            history.do(CancelExecution(reason="enough"))
        case "archive":
            history.do(ArchiveExecution())
        case _:
            node = _chosen(history.state, rng)
            variant = rng.randrange(60)
            actor = _actor(history, node, variant)
            name = _next(node, rng) if kind == "next" else kind
            history.do(_node_command(name, node, variant, actor), actor)


def _next(node: NodeState, rng: Random) -> str:
    match node.status:
        case NodeStatus.RUNNING if node.retry_at is None:
            return rng.choice(("succeed", "succeed", "succeed", "fail"))
        case NodeStatus.WAITING:
            return rng.choice(("resume", "request"))
        case _:
            return "start"


def _chosen(state: ExecutionState, rng: Random) -> NodeState:
    nodes = [node for node in state.nodes.values() if node.status.is_open]
    # Some commands go to nodes that are not open.
    if not nodes or rng.random() < 0.1:
        nodes = list(state.nodes.values())
    return rng.choice(nodes)


def _actor(history: History, node: NodeState, variant: int) -> Actor:
    definition = history.graph.nodes[node.node_id]
    if node.node_type is NodeType.TASK and getattr(definition, "run", None) is not None:
        return RUN_RESULTS if variant % 4 else PEOPLE[0]
    return PEOPLE[variant % 3]


def _node_command(name: str, node: NodeState, variant: int, actor: Actor) -> AnyCommand:
    is_next = node.retry_at is not None or node.status.value == "READY"
    expects_next = is_next and (name == "start" or actor.kind is ActorKind.SYSTEM)
    right = max(1, node.attempt + 1 if expects_next else node.attempt)
    attempt = right + 1 if variant % 12 == 0 else (None, right)[variant % 2]
    if actor.kind is ActorKind.SYSTEM and attempt is None:
        attempt = right
    worker = (None, "w1", "w1", "w2")[variant % 4]
    key = node.wait_key if variant % 10 else "other"
    node_id = node.node_id
    match name:
        case "start":
            return StartNode(node_id=node_id, attempt=attempt, worker_id=worker)
        case "succeed":
            output = {"ok": variant % 2 == 0} if variant % 3 else None
            return SucceedNode(node_id=node_id, output=output, attempt=attempt)
        case "fail":
            code = "RUN_CANCELED" if variant % 4 == 0 else "BROKEN"
            error = ReportedError(code=code, message="it broke")
            retryable = variant % 5 > 0
            return FailNode(node_id=node_id, error=error, retryable=retryable, attempt=attempt)
        case "request":
            return RequestResumeNode(node_id=node_id, resume_key=key)
        case "resume":
            return ResumeNode(node_id=node_id, resume_key=key, payload={"ok": True})
        case "wait":
            return PutNodeWaiting(node_id=node_id, wait_key="k", timeout_sec=5)
        case _:
            return ReportNodeProgress(node_id=node_id, progress=40, attempt=attempt)
