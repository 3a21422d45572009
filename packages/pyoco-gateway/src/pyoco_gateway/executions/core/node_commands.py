"""The last guard and the events of each command for a node."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.executions.core import limits
from pyoco_gateway.executions.core.decisions import Accepted, Decision, NoEffect, Rejected
from pyoco_gateway.executions.core.edges import taken_from
from pyoco_gateway.executions.core.state import ExecutionState, NodeState
from pyoco_protocol.executions.actors import Actor, ActorKind
from pyoco_protocol.executions.camel import JsonObject
from pyoco_protocol.executions.commands import (
    FailNode,
    PutNodeWaiting,
    ReportNodeProgress,
    RequestResumeNode,
    ResumeNode,
    StartNode,
    SucceedNode,
)
from pyoco_protocol.executions.events import (
    AnyEvent,
    ErrorInfo,
    LateResult,
    NodeCanceled,
    NodeFailed,
    NodeFailReported,
    NodeProgressReported,
    NodeResumed,
    NodeResumeRequested,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_protocol.executions.instants import later, milliseconds_of
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.executions.statuses import CancelReason, LateOutcome, NodeStatus
from pyoco_protocol.graphs.compiled import CompiledGraph
from pyoco_protocol.graphs.document import FailurePolicy, NodeType, TaskNode, WaitNode, WaitSpec
from pyoco_protocol.graphs.facts import extract_facts

ERR_TIMEOUT: Final = "ERR_TIMEOUT"
ERR_WAIT_TIMEOUT: Final = "ERR_WAIT_TIMEOUT"
ERR_STOP_TIMEOUT: Final = "ERR_STOP_TIMEOUT"
RUN_CANCELED: Final = "RUN_CANCELED"


@dataclass(frozen=True, slots=True)
class NodeCase:
    """What a command for a node is decided on."""

    state: ExecutionState
    graph: CompiledGraph
    node: NodeState
    actor: Actor
    now: str

    @property
    def is_timer(self) -> bool:
        """Whether a timer sent the command."""
        return self.actor.kind is ActorKind.SCHEDULER

    @property
    def wait(self) -> WaitSpec | None:
        """The definition of a Wait node; None for other nodes."""
        definition = self.graph.nodes[self.node.node_id]
        return definition.wait if isinstance(definition, WaitNode) else None

    @property
    def task(self) -> TaskNode | None:
        """The definition of a Task node; None for other nodes."""
        definition = self.graph.nodes[self.node.node_id]
        return definition if isinstance(definition, TaskNode) else None


def needed_approvals(wait: WaitSpec | None) -> int | None:
    """Return how many approvals a Wait needs; None if it needs none."""
    if wait is None:
        return None
    if wait.approvals is not None:
        return wait.approvals
    return 1 if wait.approvers is not None else None


def _start(case: NodeCase, command: StartNode) -> Decision:
    node = case.node
    if node.status is NodeStatus.IDLE:
        return Rejected(Rejection.NODE_NOT_READY)
    if node.status is not NodeStatus.READY and node.retry_at is None:
        is_same = command.worker_id is not None and command.worker_id == node.worker_id
        return NoEffect() if is_same else Rejected(Rejection.NODE_ALREADY_STARTED)
    is_early = node.retry_at is not None and case.now < node.retry_at
    if is_early and case.actor.kind is not ActorKind.SYSTEM:
        return Rejected(Rejection.RETRY_NOT_DUE, {"retryAt": node.retry_at})
    return Accepted((_started(case, command.worker_id),))


def _started(case: NodeCase, worker_id: str | None, *, has_deadline: bool = True) -> NodeStarted:
    limit = case.task.timeout_sec if case.task is not None and has_deadline else None
    return NodeStarted(
        node_id=case.node.node_id,
        attempt=case.node.attempt + 1,
        worker_id=worker_id,
        deadline_at=None if limit is None else later(case.now, limit),
    )


def _report_progress(case: NodeCase, command: ReportNodeProgress) -> Decision:
    node = case.node
    if node.status is not NodeStatus.RUNNING:
        return Rejected(Rejection.NODE_NOT_RUNNING)
    is_too_soon = node.progress is not None and case.now < later(
        node.progress.at, limits.MIN_PROGRESS_INTERVAL_SEC
    )
    has_too_many = node.progress_count >= limits.MAX_PROGRESS_PER_ATTEMPT
    if is_too_soon or has_too_many or case.state.seq >= limits.MAX_PROGRESS_SEQ:
        return NoEffect()
    return Accepted(
        (
            NodeProgressReported(
                node_id=node.node_id,
                attempt=node.attempt,
                progress=command.progress,
                message=command.message,
                metrics=command.metrics,
            ),
        )
    )


def _put_waiting(case: NodeCase, command: PutNodeWaiting) -> Decision:
    node = case.node
    if node.status is NodeStatus.WAITING and node.wait_key == command.wait_key:
        return NoEffect()
    if node.status is not NodeStatus.RUNNING:
        return Rejected(Rejection.NODE_NOT_RUNNING)
    limit = command.timeout_sec
    return Accepted(
        (
            NodeWaiting(
                node_id=node.node_id,
                wait_key=command.wait_key,
                prompt=command.prompt,
                deadline_at=None if limit is None else later(case.now, limit),
            ),
        )
    )


def _key_mismatch(case: NodeCase, resume_key: str | None) -> bool:
    return case.node.wait_key is not None and resume_key != case.node.wait_key


def _is_outsider(case: NodeCase) -> bool:
    wait = case.wait
    return wait is not None and wait.approvers is not None and case.actor.id not in wait.approvers


def _request_resume(case: NodeCase, command: RequestResumeNode) -> Decision:
    node = case.node
    if node.status is not NodeStatus.WAITING:
        return Rejected(Rejection.NODE_NOT_WAITING)
    if _key_mismatch(case, command.resume_key):
        return Rejected(Rejection.RESUME_KEY_MISMATCH)
    if _is_outsider(case):
        return Rejected(Rejection.NOT_AN_APPROVER)
    has_approved = case.actor.id in node.approvals
    if has_approved or node.resume_requests >= limits.MAX_RESUME_REQUESTS:
        return NoEffect()
    needed = needed_approvals(case.wait)
    request = NodeResumeRequested(
        node_id=node.node_id,
        resume_key=command.resume_key,
        requested_by=case.actor,
        comment=command.comment,
        payload=command.payload,
        approval=True if needed is not None else None,
    )
    if needed is None or len(node.approvals) + 1 < needed:
        return Accepted((request,))
    return Accepted((request, *_resumed(case, command.payload)))


def _resume(case: NodeCase, command: ResumeNode) -> Decision:
    node = case.node
    if node.status is not NodeStatus.WAITING:
        return Rejected(Rejection.NODE_NOT_WAITING)
    if case.is_timer:
        return Accepted(_resumed(case, command.payload)) if _is_overdue(case) else NoEffect()
    if needed_approvals(case.wait) is not None:
        return Rejected(Rejection.APPROVALS_REQUIRED)
    if _key_mismatch(case, command.resume_key):
        return Rejected(Rejection.RESUME_KEY_MISMATCH)
    return Accepted(_resumed(case, command.payload))


def _resumed(case: NodeCase, payload: JsonObject | None) -> tuple[AnyEvent, ...]:
    node = case.node
    resumed = NodeResumed(
        node_id=node.node_id,
        payload=payload,
        resumed_by=case.actor,
        deadline_at=_deadline_after_wait(case),
    )
    if node.node_type is not NodeType.WAIT:
        return (resumed,)
    return (resumed, _succeeded(case, node.attempt, payload or {}))


def _deadline_after_wait(case: NodeCase) -> str | None:
    """Return when an attempt times out that has waited: the wait does not count."""
    deadline, since = case.node.attempt_deadline_at, case.node.waiting_since
    if deadline is None or since is None:
        return None
    left_ms = milliseconds_of(deadline) - milliseconds_of(since)
    return later(case.now, max(left_ms, limits.MIN_TIME_AFTER_RESUME_MS) / 1000)


def _succeeded(case: NodeCase, attempt: int, output: JsonObject | None) -> NodeSucceeded:
    node_id = case.node.node_id
    facts = extract_facts(output or {}, case.graph.output_facts.get(node_id, ()))
    return NodeSucceeded(
        node_id=node_id,
        attempt=attempt,
        output=output,
        facts=facts or None,
        taken=taken_from(case.state, case.graph, node_id, status=NodeStatus.SUCCEEDED, facts=facts),
    )


def _implicit_start(case: NodeCase, worker_id: str | None) -> tuple[NodeStarted, ...]:
    """Return the start that a result of the server contains when it was not reported before."""
    is_next = case.node.status is NodeStatus.READY or case.node.retry_at is not None
    if case.actor.kind is not ActorKind.SYSTEM or not is_next:
        return ()
    return (_started(case, worker_id, has_deadline=False),)


def _succeed(case: NodeCase, command: SucceedNode) -> Decision:
    start = _implicit_start(case, command.worker_id)
    if case.node.status is not NodeStatus.RUNNING and not start:
        return Rejected(Rejection.NODE_NOT_RUNNING)
    attempt = case.node.attempt + len(start)
    return Accepted((*start, _succeeded(case, attempt, command.output)))


def _fail(case: NodeCase, command: FailNode) -> Decision:
    node = case.node
    start = _implicit_start(case, command.worker_id)
    if node.status not in (NodeStatus.RUNNING, NodeStatus.WAITING) and not start:
        return Rejected(Rejection.NODE_NOT_RUNNING)
    if case.is_timer and not _is_overdue(case):
        return NoEffect()
    if not case.is_timer and _is_outsider(case):
        return Rejected(Rejection.NOT_AN_APPROVER)
    error = ErrorInfo() if command.error is None else ErrorInfo(**dict(command.error))
    attempt = node.attempt + len(start)
    if node.status is not NodeStatus.WAITING and _is_retried(case, command, attempt):
        report = NodeFailReported(
            node_id=node.node_id,
            attempt=attempt,
            error=error,
            retry_at=retry_at(case, attempt),
        )
        return Accepted((*start, report))
    return Accepted((*start, failed(case.state, case.graph, node.node_id, attempt, error)))


def _is_overdue(case: NodeCase) -> bool:
    """Whether a timer still applies: the node may have moved on since the timer fired."""
    return case.node.deadline_at is not None and case.node.deadline_at <= case.now


def failed(
    state: ExecutionState, graph: CompiledGraph, node_id: str, attempt: int, error: ErrorInfo
) -> NodeFailed:
    """Return the event of a node that failed for good."""
    taken = None
    if graph.failure_policy[node_id] is FailurePolicy.CONTINUE:
        taken = taken_from(state, graph, node_id, status=NodeStatus.FAILED, error=error)
    return NodeFailed(node_id=node_id, attempt=attempt, error=error, taken=taken)


def _is_retried(case: NodeCase, command: FailNode, attempt: int) -> bool:
    task = case.task
    if task is None or not command.retryable:
        return False
    has_attempts = attempt < task.retry.max_attempts
    return has_attempts and code_of(command) not in task.retry.non_retryable


def code_of(command: FailNode) -> str | None:
    """Return the error code of a failure report."""
    return None if command.error is None else command.error.code


def retry_at(case: NodeCase, attempt: int) -> str:
    """Return when the attempt after `attempt` may start.

    The jitter derives from the ids, so that replaying a command gives the same time.
    """
    assert case.task is not None  # noqa: S101 - only tasks are retried
    backoff = case.task.retry.backoff
    delay = min(backoff.max_sec, backoff.initial_sec * backoff.factor ** (attempt - 1))
    name = f"{case.state.execution_id}:{case.node.node_id}:{attempt}"
    fraction = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    return later(case.now, delay * (1 + backoff.jitter * fraction))


def cancel_reason(state: ExecutionState, node: NodeState) -> CancelReason:
    """Return the reason with which an interrupted node ends."""
    if state.cancel_requested_at is not None:
        return CancelReason.EXECUTION_CANCELED
    if state.fail_requested_at is not None:
        return CancelReason.EXECUTION_FAILED
    return node.cancel_reason or CancelReason.EXECUTION_CANCELED


def late_result(case: NodeCase, command: SucceedNode | FailNode) -> NodeCanceled:
    """Return the event that ends an interrupted node and keeps what its attempt came to."""
    reason = cancel_reason(case.state, case.node)
    if isinstance(command, SucceedNode):
        result = LateResult(outcome=LateOutcome.SUCCEEDED, output=command.output)
    else:
        error = None if command.error is None else ErrorInfo(**dict(command.error))
        result = LateResult(outcome=_late_failure(case, command), error=error)
    return NodeCanceled(
        node_id=case.node.node_id,
        reason=reason,
        by_execution=reason.is_by_execution,
        late_result=result,
    )


def _late_failure(case: NodeCase, command: FailNode) -> LateOutcome:
    if case.is_timer:
        return LateOutcome.LOST
    return LateOutcome.STOPPED if code_of(command) == RUN_CANCELED else LateOutcome.FAILED


NODE_RULES: Final[Mapping[type[Any], Callable[[NodeCase, Any], Decision]]] = {
    StartNode: _start,
    ReportNodeProgress: _report_progress,
    PutNodeWaiting: _put_waiting,
    RequestResumeNode: _request_resume,
    ResumeNode: _resume,
    SucceedNode: _succeed,
    FailNode: _fail,
}
