"""Moves an execution on after a command, until nothing is left to do: rules R1 to R7.

Rules are tried in order, and after each emission again from the first. A cancel is therefore
handled before a failure, and a failure before anything that would let the execution go on.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from pyoco_gateway.executions.core.edges import (
    Colour,
    colour,
    gate_of,
    is_decided,
    predecessors_taken,
    taken_from,
    unfinished_nodes,
)
from pyoco_gateway.executions.core.node_commands import cancel_reason, failed
from pyoco_gateway.executions.core.reduce import Reducer
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_gateway.executions.core.walk_events import (
    dead_path_reason,
    impossible,
    reached,
    short_worker_id,
    waiting,
)
from pyoco_protocol.executions import events as ev
from pyoco_protocol.executions.actors import ORCHESTRATOR
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.executions.instants import later
from pyoco_protocol.executions.statuses import (
    CancelReason,
    ExecutionStatus,
    FailReason,
    LateOutcome,
    NodeStatus,
)
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import (
    CanceledNode,
    FailedNode,
    FailurePolicy,
    ForkNode,
    JoinNode,
    Losers,
    NodeType,
    WaitNode,
)
from pyoco_protocol.graphs.facts import extract_facts

_MOVES: Final = (ev.ExecutionStarted, ev.NodeSucceeded, ev.NodeFailed, ev.NodeCanceled)


class Caused(NamedTuple):
    """An event of the orchestrator, and the seq of the event that led to it."""

    event: AnyEvent
    cause: int


def orchestrate(
    reducer: Reducer,
    graph: CompiledGraph,
    now: str,
    *,
    stop_grace_sec: float,
    decided: Sequence[AnyEvent] | None = None,
) -> list[Caused]:
    """Apply everything that follows from the state of `reducer`, and return it as events.

    `decided` are the events of the same commit that were applied last: nothing was left to do
    before them. Without it, the rules are tried on the whole state.
    """
    if reducer.state is None or reducer.state.status is not ExecutionStatus.ACTIVE:
        return []
    work = _Orchestration(reducer, reducer.state, graph, now, stop_grace_sec)
    work.run(decided)
    return work.emitted


class _Orchestration:
    def __init__(
        self,
        reducer: Reducer,
        state: ExecutionState,
        graph: CompiledGraph,
        now: str,
        stop_grace_sec: float,
    ) -> None:
        self.emitted: list[Caused] = []
        self._reducer = reducer
        self._state = state
        self._graph = graph
        self._now = now
        self._stop_grace_sec = stop_grace_sec
        # The last event of each node in this commit: what follows from the node is caused by it.
        self._last_of_node: dict[str, int] = {}
        # The request to cancel or to fail, if it is in this commit.
        self._last_request: int | None = None
        self._last = state.seq
        # Whether the execution started or a node ended in this commit. Rules R4 to R7 follow only
        # from that.
        self._has_moved = False

    def run(self, decided: Sequence[AnyEvent] | None) -> None:
        """Emit what the rules say, in their order."""
        if decided is None:
            self._has_moved = True
        else:
            first = self._state.seq - len(decided) + 1
            for seq, event in enumerate(decided, start=first):
                self._remember(event, seq)
        self._end_overdue_interrupts()
        if self._has_moved:
            self._fail_fast(self._graph.order)
            if self._state.started_at is not None and self._goes_on:
                self._walk_decided_nodes()
                self._conclude()
        self._close()
        if self._has_moved:
            self._update_gates()

    def _emit(self, event: AnyEvent, cause: int | None = None) -> None:
        self.emitted.append(Caused(event, self._last if cause is None else cause))
        self._last = self._reducer.apply(event)
        self._remember(event, self._last)

    def _remember(self, event: AnyEvent, seq: int) -> None:
        if isinstance(event, ev.NodeEvent):
            self._last_of_node[event.node_id] = seq
        elif isinstance(event, ev.ExecutionCancelRequested | ev.ExecutionFailRequested):
            self._last_request = seq
        self._has_moved = self._has_moved or isinstance(event, _MOVES)

    @cached_property
    def _stop_deadline(self) -> str:
        return later(self._now, self._stop_grace_sec)

    @property
    def _goes_on(self) -> bool:
        """Whether rules below R3 apply."""
        return self._state.status is ExecutionStatus.ACTIVE and not self._state.is_closing

    def _end_overdue_interrupts(self) -> None:
        """Rule R1: an interrupted attempt that did not answer in time is lost."""
        for node in unfinished_nodes(self._state, self._graph):
            deadline = node.stop_deadline_at
            if node.is_interrupted and deadline is not None and deadline <= self._now:
                reason = cancel_reason(self._state, node)
                self._emit(
                    ev.NodeCanceled(
                        node_id=node.node_id,
                        reason=reason,
                        by_execution=reason.is_by_execution,
                        late_result=ev.LateResult(outcome=LateOutcome.LOST),
                    )
                )

    def _close(self) -> None:
        """Rules R2 and R3: stop what runs, cancel the rest, end when nothing is left."""
        state = self._state
        if not state.is_closing:
            return
        is_cancel = state.cancel_requested_at is not None
        reason = CancelReason.EXECUTION_CANCELED if is_cancel else CancelReason.EXECUTION_FAILED
        cause = self._last if self._last_request is None else self._last_request
        for node in unfinished_nodes(state, self._graph):
            if not node.is_engaged:
                event = ev.NodeCanceled(node_id=node.node_id, reason=reason, by_execution=True)
                self._emit(event, cause)
            elif not node.is_interrupted:
                self._interrupt(node, reason, cause)
        if any(not node.status.is_terminal for node in state.nodes.values()):
            return
        if is_cancel:
            self._emit(ev.ExecutionCanceled(reason=state.cancel_reason, canceled_at=self._now))
        else:
            assert state.fail_reason is not None  # noqa: S101 - set with `fail_requested_at`
            self._emit(
                ev.ExecutionFailed(
                    reason=state.fail_reason,
                    failed_node_id=state.failed_node_id,
                    error=state.error,
                )
            )

    def _interrupt(self, node: NodeState, reason: CancelReason, cause: int) -> None:
        self._emit(
            ev.NodeInterruptRequested(
                node_id=node.node_id,
                attempt=node.attempt,
                worker_id=short_worker_id(node.worker_id),
                reason=reason,
                stop_deadline_at=self._stop_deadline,
            ),
            cause,
        )

    def _fail_fast(self, node_ids: Iterable[str]) -> None:
        """Rule R4: the first of these nodes with a failure that is not tolerated."""
        if not self._goes_on:
            return
        for node_id in node_ids:
            node = self._state.nodes[node_id]
            if (
                node.status is NodeStatus.FAILED
                and self._graph.failure_policy[node_id] is FailurePolicy.FAIL
            ):
                self._request_failure(node)
                return

    def _request_failure(self, node: NodeState) -> None:
        is_end = node.node_type is NodeType.FAILED
        self._emit(
            ev.ExecutionFailRequested(
                reason=FailReason.FAILED_NODE_REACHED if is_end else FailReason.NODE_FAILED,
                failed_node_id=node.node_id,
                error=node.error,
            ),
            self._last_of_node.get(node.node_id),
        )

    def _conclude(self) -> None:
        """Rule R6: no node is left."""
        state, graph = self._state, self._graph
        is_over = all(node.status.is_terminal for node in state.nodes.values())
        if not is_over or not self._goes_on:
            return
        ordered = [state.nodes[node_id] for node_id in graph.order]
        ends = [
            node.node_id
            for node in ordered
            if node.node_type is NodeType.SUCCESS and node.status is NodeStatus.SUCCEEDED
        ]
        if ends:
            sources = [s for end in ends for s in predecessors_taken(state, graph, end)]
            result = ev.CompletedResult(
                end_node_ids=tuple(ends), sources=tuple(dict.fromkeys(sources))
            )
            self._emit(ev.ExecutionCompleted(result=result))
            return
        failed_node = next((node for node in ordered if node.status is NodeStatus.FAILED), None)
        self._emit(
            ev.ExecutionFailRequested(
                reason=FailReason.NO_SUCCESS_REACHED,
                failed_node_id=None if failed_node is None else failed_node.node_id,
                error=None if failed_node is None else failed_node.error,
            )
        )

    def _update_gates(self) -> None:
        """Rule R7: tell how far each open Join is."""
        state, graph = self._state, self._graph
        if not self._goes_on or state.started_at is None:
            return
        for node_id in graph.joins:
            if state.nodes[node_id].status.is_terminal:
                continue
            join = graph.nodes[node_id]
            assert isinstance(join, JoinNode)  # noqa: S101 - `joins` names only these
            gate = gate_of(state, graph, join)
            if len(gate.pending) == len(graph.incoming[node_id]):
                continue
            event = gate.event()
            if event != state.gates.get(node_id):
                self._emit(event, self._cause_of(node_id))

    def _cause_of(self, node_id: str) -> int | None:
        """Return the seq of the latest event of a node before this one in this commit."""
        seqs = [
            self._last_of_node[edge.source]
            for edge in self._graph.incoming[node_id]
            if edge.source in self._last_of_node
        ]
        return max(seqs, default=None)

    def _walk_decided_nodes(self) -> None:
        """Rule R5, node by node.

        A walk decides only nodes that come later in topological order: the losers of a Join lead
        only to it. So each node is looked at once.
        """
        nodes = self._state.nodes
        for node_id in self._graph.order:
            is_idle = nodes[node_id].status is NodeStatus.IDLE
            if is_idle and is_decided(self._state, self._graph, node_id):
                self._walk(node_id)
                self._fail_fast([node_id])
                if not self._goes_on:
                    return

    def _walk(self, node_id: str) -> None:
        """Let a node do what it can at once."""
        definition = self._graph.nodes[node_id]
        cause = self._cause_of(node_id)
        if isinstance(definition, JoinNode):
            self._walk_join(definition, cause)
            return
        if definition.type is not NodeType.START:
            colours = self._colours(node_id)
            if Colour.FIRED not in colours:
                self._cancel_dead_path(node_id, colours, cause)
                return
        self._emit(ev.NodeReady(node_id=node_id), cause)
        match definition:
            case WaitNode():
                self._emit(ev.NodeStarted(node_id=node_id, attempt=1))
                self._emit(waiting(self._state, self._graph, definition, self._now))
            case CanceledNode():
                detail = f": {definition.reason}" if definition.reason else ""
                self._emit(
                    ev.ExecutionCancelRequested(
                        reason=f"node:{node_id}{detail}", requested_by=ORCHESTRATOR
                    )
                )
            case FailedNode():
                self._emit(ev.NodeStarted(node_id=node_id, attempt=1))
                self._emit(failed(self._state, self._graph, node_id, 1, reached(definition)))
            case _ if definition.type is not NodeType.TASK:
                self._emit(ev.NodeStarted(node_id=node_id, attempt=1))
                taken = self._taken(node_id)
                self._emit(ev.NodeSucceeded(node_id=node_id, attempt=1, taken=taken))
                if isinstance(definition, ForkNode) and taken:
                    self._emit(ev.ForkOpened(node_id=node_id, branch_ids=taken))

    def _colours(self, node_id: str) -> set[Colour]:
        graph = self._graph
        return {colour(self._state, graph, edge) for edge in graph.incoming[node_id]}

    def _cancel_dead_path(self, node_id: str, colours: set[Colour], cause: int | None) -> None:
        reason = dead_path_reason(colours)
        self._emit(ev.NodeCanceled(node_id=node_id, reason=reason, by_execution=False), cause)

    def _taken(self, node_id: str, facts: JsonObject | None = None) -> tuple[str, ...]:
        return taken_from(
            self._state, self._graph, node_id, status=NodeStatus.SUCCEEDED, facts=facts
        )

    def _walk_join(self, join: JoinNode, cause: int | None) -> None:
        gate = gate_of(self._state, self._graph, join)
        if gate.is_empty:
            self._cancel_dead_path(join.id, self._colours(join.id), cause)
            return
        self._emit(gate.event(), cause)
        self._emit(ev.NodeReady(node_id=join.id))
        self._emit(ev.NodeStarted(node_id=join.id, attempt=1))
        if gate.is_passable:
            self._emit(ev.JoinPassed(node_id=join.id))
            output = gate.output()
            facts = extract_facts(output, self._graph.output_facts.get(join.id, ()))
            self._emit(
                ev.NodeSucceeded(
                    node_id=join.id,
                    attempt=1,
                    output=output,
                    facts=facts or None,
                    taken=self._taken(join.id, facts),
                )
            )
        else:
            self._emit(failed(self._state, self._graph, join.id, 1, impossible(join)))
        if gate.pending and (join.losers is Losers.CANCEL or not gate.is_passable):
            self._stop_losers(join, passed=gate.is_passable)

    def _stop_losers(self, join: JoinNode, *, passed: bool) -> None:
        """Stop the nodes that lead only to a Join that does not wait for them any more."""
        reason = CancelReason.JOIN_PASSED if passed else CancelReason.JOIN_FAILED
        cause = self._last
        for node_id in self._graph.losers_of[join.id]:
            node = self._state.nodes[node_id]
            if node.status.is_terminal:
                continue
            if not node.is_engaged:
                event = ev.NodeCanceled(node_id=node_id, reason=reason, by_execution=False)
                self._emit(event, cause)
            elif not node.is_interrupted:
                self._emit(ev.NodeCancelRequested(node_id=node_id, reason=reason), cause)
                self._interrupt(node, reason, self._last)
