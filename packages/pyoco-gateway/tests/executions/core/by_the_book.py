"""The rules of the orchestrator as the specification writes them, without any shortcut.

An oracle for tests: it looks at all nodes again after each event, and derives order, paths and
policies from the document alone. Only the reducer and the conditions are those of the product.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyoco_gateway.executions.core.reduce import Origin, Reducer
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.actors import ORCHESTRATOR
from pyoco_protocol.executions.events import AnyEvent, ErrorInfo
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import CancelReason, FailReason, LateOutcome
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.facts import MISSING, Fact, fact_from_json
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.templates import parse_template, render_object, render_text

ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
Branches = dict[str, list[str]]


@dataclass
class Book:
    """One run of the orchestrator after the events of a command."""

    state: ExecutionState
    graph: CompiledGraph
    now: str
    grace: float

    def __post_init__(self) -> None:
        origin = Origin(self.state.execution_id, self.state.tenant_id, ORCHESTRATOR, self.now)
        self.reducer = Reducer(self.state, origin)
        self.nodes = {node.id: node for node in self.graph.document.nodes}
        self.edges = [(edge.source, edge.target) for edge in self.graph.document.edges]
        self.order = self.topological()
        self.events: list[AnyEvent] = []
        self.rounds = 0

    def run(self) -> list[AnyEvent]:
        while self.now_state().status == "ACTIVE" and (found := self.first_rule()):
            self.rounds += 1
            for event in found:
                self.emit(event)
        if self.now_state().status == "ACTIVE" and not self.is_closing():
            for event in list(self.r7()):
                self.emit(event)
        return self.events

    def emit(self, event: AnyEvent) -> None:
        self.reducer.apply(event)
        self.events.append(event)

    def now_state(self) -> ExecutionState:
        assert self.reducer.state is not None
        return self.reducer.state

    def node(self, name: str) -> NodeState:
        return self.now_state().nodes[name]

    def is_closing(self) -> bool:
        state = self.now_state()
        return state.cancel_requested_at is not None or state.fail_requested_at is not None

    # 5.1: of those whose predecessors have all been taken, the earliest in the document.
    def topological(self) -> list[str]:
        order: list[str] = []
        while len(order) < len(self.nodes):
            order.append(
                next(
                    name
                    for name in self.nodes
                    if name not in order and all(a in order for a, b in self.edges if b == name)
                )
            )
        return order

    def first_rule(self) -> list[AnyEvent]:
        if found := self.r1():
            return found
        if self.now_state().cancel_requested_at is not None:
            return self.closing("EXECUTION_CANCELED")
        if self.now_state().fail_requested_at is not None:
            return self.closing("EXECUTION_FAILED")
        return self.r4() or self.r5() or self.r6()

    def canceled(self, name: str, reason: str, **more: Any) -> ev.NodeCanceled:
        by_execution = reason in ("EXECUTION_CANCELED", "EXECUTION_FAILED")
        return ev.NodeCanceled(
            node_id=name, reason=CancelReason(reason), by_execution=by_execution, **more
        )

    def interrupted(self, name: str, reason: str) -> ev.NodeInterruptRequested:
        node = self.node(name)
        return ev.NodeInterruptRequested(
            node_id=name,
            attempt=node.attempt,
            worker_id=node.worker_id,
            reason=CancelReason(reason),
            stop_deadline_at=later(self.now, self.grace),
        )

    def r1(self) -> list[AnyEvent]:
        state = self.now_state()
        for name in self.order:
            node = self.node(name)
            if node.status == "RUNNING" and node.interrupt_requested_at is not None:
                assert node.stop_deadline_at is not None
                if node.stop_deadline_at <= self.now:
                    reason = str(node.cancel_reason)
                    if state.cancel_requested_at is not None:
                        reason = "EXECUTION_CANCELED"
                    elif state.fail_requested_at is not None:
                        reason = "EXECUTION_FAILED"
                    lost = ev.LateResult(outcome=LateOutcome.LOST)
                    return [self.canceled(name, reason, late_result=lost)]
        return []

    def closing(self, reason: str) -> list[AnyEvent]:
        """R2 and R3."""
        state = self.now_state()
        for name in self.order:
            node = self.node(name)
            if node.status in ENDED:
                continue
            if node.status == "RUNNING" and node.retry_at is None:
                if node.interrupt_requested_at is None:
                    return [self.interrupted(name, reason)]
            else:
                return [self.canceled(name, reason)]
        if any(self.node(name).status not in ENDED for name in self.order):
            return []
        if reason == "EXECUTION_CANCELED":
            return [ev.ExecutionCanceled(reason=state.cancel_reason, canceled_at=self.now)]
        assert state.fail_reason is not None
        return [
            ev.ExecutionFailed(
                reason=state.fail_reason, failed_node_id=state.failed_node_id, error=state.error
            )
        ]

    def r4(self) -> list[AnyEvent]:
        for name in self.order:
            node = self.node(name)
            if node.status == "FAILED" and self.policy(name) == "fail":
                is_end = node.node_type == "Failed"
                reason = FailReason.FAILED_NODE_REACHED if is_end else FailReason.NODE_FAILED
                return [
                    ev.ExecutionFailRequested(reason=reason, failed_node_id=name, error=node.error)
                ]
        return []

    def r5(self) -> list[AnyEvent]:
        if self.now_state().started_at is None:
            return []
        for name in self.order:
            if self.node(name).status == "IDLE" and (walk := list(self.walk(name))):
                return walk
        return []

    def r6(self) -> list[AnyEvent]:
        nodes = [self.node(name) for name in self.order]
        if self.now_state().started_at is None or any(n.status not in ENDED for n in nodes):
            return []
        ends = [n.node_id for n in nodes if n.node_type == "Success" and n.status == "SUCCEEDED"]
        if ends:
            sources = [
                a
                for end in ends
                for a, b in self.edges
                if b == end and self.colour(a, b) == "FIRED"
            ]
            result = {"endNodeIds": ends, "from": list(dict.fromkeys(sources))}
            return [ev.ExecutionCompleted(result=ev.CompletedResult.model_validate(result))]
        failed = next((n for n in nodes if n.status == "FAILED"), None)
        return [
            ev.ExecutionFailRequested(
                reason=FailReason.NO_SUCCESS_REACHED,
                failed_node_id=None if failed is None else failed.node_id,
                error=None if failed is None else failed.error,
            )
        ]

    def r7(self) -> Iterator[AnyEvent]:
        for name in self.order:
            if self.nodes[name].type == "Join" and self.node(name).status not in ENDED:
                branches = self.branches(name)
                gate = self.gate(name, branches)
                is_known = gate == self.now_state().gates.get(name)
                if not is_known and sum(map(len, branches.values())) > len(branches["pending"]):
                    yield gate

    # 5.3
    def colour(self, source: str, target: str) -> str:
        node = self.node(source)
        if node.status not in ENDED:
            return "PENDING"
        may_fire = node.status == "SUCCEEDED" or (
            node.status == "FAILED" and self.policy(source) == "continue"
        )
        if may_fire:
            return "FIRED" if target in node.taken else "SKIPPED"
        if node.status == "FAILED" or node.cancel_reason == "UPSTREAM_FAILED":
            return "FAILED"
        return "SKIPPED" if node.cancel_reason == "NOT_TAKEN" else "CANCELED"

    def walk(self, name: str) -> Iterator[AnyEvent]:
        node = self.nodes[name]
        colours = [self.colour(a, b) for a, b in self.edges if b == name]
        if node.type == "Join":
            yield from self.walk_join(name)
            return
        if "PENDING" in colours:
            return
        if node.type != "Start" and "FIRED" not in colours:
            kinds = [kind for kind in ("FAILED", "CANCELED") if kind in colours]
            yield self.canceled(name, f"UPSTREAM_{kinds[0]}" if kinds else "NOT_TAKEN")
            return
        yield ev.NodeReady(node_id=name)
        started = ev.NodeStarted(node_id=name, attempt=1)
        match node.type:
            case "Start" | "Success" | "Fork":
                taken = self.taken(name)
                yield started
                yield ev.NodeSucceeded(node_id=name, attempt=1, taken=taken)
                if node.type == "Fork" and taken:
                    yield ev.ForkOpened(node_id=name, branch_ids=taken)
            case "Wait":
                yield started
                yield self.waiting(name)
            case "Failed":
                code, message = "FAILED_NODE_REACHED", f"the node {name} was reached"
                if (given := getattr(node, "error", None)) is not None:
                    code, message = given.code, given.message
                yield started
                error = ErrorInfo(code=code, message=message)
                yield ev.NodeFailed(node_id=name, attempt=1, error=error)
            case "Canceled":
                reason = getattr(node, "reason", None)
                text = f"node:{name}" + (f": {reason}" if reason else "")
                yield ev.ExecutionCancelRequested(reason=text, requested_by=ORCHESTRATOR)

    def waiting(self, name: str) -> AnyEvent:
        wait = getattr(self.nodes[name], "wait")  # noqa: B009 - not all nodes have it
        key, prompt, seconds = wait.key, wait.prompt, wait.timeout_sec
        return ev.NodeWaiting(
            node_id=name,
            wait_key=None if key is None else render_text(parse_template(key), self.fact),
            prompt=None if prompt is None else render_object(prompt, self.fact),
            deadline_at=None if seconds is None else later(self.now, seconds),
            approvals=wait.approvals,
            approvers=wait.approvers,
        )

    def taken(self, name: str, status: str = "SUCCEEDED") -> tuple[str, ...]:
        def fact(path: Path) -> Fact:
            return status if path.root == "status" else self.fact(path)

        found = [
            edge.target
            for edge in self.graph.outgoing[name]
            if edge.condition is None or edge.condition.holds(fact)
        ]
        return tuple(found if self.nodes[name].type == "Fork" else found[:1])

    def fact(self, path: Path) -> Fact:
        """Return a fact of the input; nodes without a worker have none that graphs ask for."""
        facts = self.now_state().facts
        is_known = path.root == "input" and path.fact_key in facts
        return fact_from_json(facts[path.fact_key]) if is_known else MISSING

    # 5.4
    def policy(self, name: str) -> str:
        node = self.nodes[name]
        if getattr(node, "on_failure", None) is not None:
            return str(getattr(node, "on_failure"))  # noqa: B009 - not all nodes have it
        tolerant = [
            other
            for other, join in self.nodes.items()
            if getattr(join, "policy", "ALL_SUCCESS") != "ALL_SUCCESS" and self.pdom(name, other)
        ]
        return "contain" if tolerant and node.type != "Failed" else "fail"

    def pdom(self, name: str, join: str) -> bool:
        """Return whether `join` lies on every path from `name` to any end."""
        if name == join:
            return False
        seen, waiting = {name}, [name]
        while waiting:
            here = waiting.pop()
            targets = [b for a, b in self.edges if a == here]
            if not targets:
                return False
            new = [b for b in targets if b not in seen and b != join]
            seen.update(new)
            waiting += new
        return True

    # 5.6
    def branches(self, join: str) -> Branches:
        found: Branches = {
            kind: [] for kind in ("pending", "completed", "failed", "canceled", "skipped")
        }
        for source, target in self.edges:
            if target == join:
                colour = self.colour(source, join)
                if colour == "FIRED":
                    is_failed = self.node(source).status == "FAILED"
                    found["failed" if is_failed else "completed"].append(source)
                else:
                    found[colour.lower()].append(source)
        return found

    def verdict(self, name: str, branches: Branches) -> str:
        """Return what the table of policies says: passes, impossible, not taken or open."""
        join: Any = self.nodes[name]
        p, s, f, c, k = (len(branches[kind]) for kind in branches)
        if p == s == f == c == 0:
            return "not taken"
        m = join.min_success or 0
        x = p + s + f + c + k if join.max_fail is None else join.max_fail
        passes, impossible = {
            "ALL_SUCCESS": (p == 0 and f + c == 0 and s >= 1, f + c >= 1),
            "ANY_SUCCESS": (s >= 1, p == 0 and s == 0 and f + c >= 1),
            "ALL_DONE": (p == 0 and s + f + c >= 1, False),
            "CUSTOM": (
                s >= m and f + c <= x and s + f + c >= 1 and (p == 0 or m > 0),
                f + c > x or (s + p < m and s + f + c >= 1),
            ),
        }[join.policy.value]
        assert not (passes and impossible)
        return "passes" if passes else "impossible" if impossible else "open"

    def gate(self, name: str, branches: Branches) -> ev.JoinGateUpdated:
        sources = [a for a, b in self.edges if b == name]
        return ev.JoinGateUpdated(
            node_id=name,
            expected_branches=tuple(a for a in sources if a not in branches["skipped"]),
            completed_branches=tuple(branches["completed"]),
            failed_branches=tuple(branches["failed"]),
            canceled_branches=tuple(branches["canceled"]),
            skipped_branches=tuple(branches["skipped"]),
            policy=self.graph.nodes[name].policy,  # type: ignore[union-attr] # a Join
            is_passable=self.verdict(name, branches) == "passes",
        )

    def walk_join(self, name: str) -> Iterator[AnyEvent]:
        branches = self.branches(name)
        verdict = self.verdict(name, branches)
        if verdict == "not taken":
            yield self.canceled(name, "NOT_TAKEN")
        if verdict in ("open", "not taken"):
            return
        join: Any = self.nodes[name]
        yield self.gate(name, branches)
        yield ev.NodeReady(node_id=name)
        yield ev.NodeStarted(node_id=name, attempt=1)
        if verdict == "passes":
            yield ev.JoinPassed(node_id=name)
            counts = {kind: len(found) for kind, found in branches.items()}
            counts["succeeded"] = counts.pop("completed")
            yield ev.NodeSucceeded(node_id=name, attempt=1, output=counts, taken=self.taken(name))
        else:
            message = f"the join {name} can no longer pass with policy {join.policy.value}"
            error = ErrorInfo(code="JOIN_IMPOSSIBLE", message=message)
            is_continued = self.policy(name) == "continue"
            taken = self.taken(name, "FAILED") if is_continued else None
            yield ev.NodeFailed(node_id=name, attempt=1, error=error, taken=taken)
        if branches["pending"] and (join.losers == "cancel" or verdict == "impossible"):
            yield from self.losers(name, "JOIN_PASSED" if verdict == "passes" else "JOIN_FAILED")

    # 5.7
    def losers(self, join: str, reason: str) -> Iterator[AnyEvent]:
        for name in self.order:
            node = self.node(name)
            if node.status in ENDED or not self.pdom(name, join):
                continue
            if node.status != "RUNNING" or node.retry_at is not None:
                yield self.canceled(name, reason)
            elif node.interrupt_requested_at is None:
                yield ev.NodeCancelRequested(node_id=name, reason=CancelReason(reason))
                yield self.interrupted(name, reason)
