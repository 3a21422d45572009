"""The answers to commands."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

from pyoco_gateway.executions.core.decisions import Rejected
from pyoco_gateway.executions.core.state import ExecutionState
from pyoco_gateway.executions.request import KeyedRequest, Requested
from pyoco_protocol.executions.commands import CreateExecution, NodeCommandBase
from pyoco_protocol.executions.commits import CommitRecord
from pyoco_protocol.problems import (
    CommandRejectedError,
    ExecutionKeyReusedError,
    LogCorruptError,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an accepted command; `is_replay` if an earlier request was accepted."""

    status: int
    body: dict[str, Any]
    is_replay: bool = False

    def stored(self) -> dict[str, Any]:
        """Return the answer as a commit stores it."""
        return {"status": self.status, "body": self.body}


def applied(requested: Requested, after: ExecutionState) -> Answer:
    """Return the answer to a command that is committed."""
    return Answer(HTTPStatus.ACCEPTED.value, _body(requested, after, "APPLIED"))


def unchanged(requested: Requested, state: ExecutionState) -> Answer:
    """Return the answer to a command that had nothing to do."""
    return Answer(HTTPStatus.OK.value, _body(requested, state, "NONE"))


def _body(
    requested: Requested, state: ExecutionState, effect: Literal["APPLIED", "NONE"]
) -> dict[str, Any]:
    """Return the body as `CommandAnswer` describes it."""
    body = {
        "executionId": state.execution_id,
        "command": requested.command.name,
        "accepted": True,
        "effect": effect,
        "correlationId": requested.correlation_id or "",
        "idempotencyKey": "" if requested.keyed is None else requested.keyed.key,
        "seq": state.seq,
        "status": state.status.value,
    }
    if isinstance(requested.command, CreateExecution):
        body |= {"graphId": state.graph_id, "graphVersion": state.graph_version}
    return body


def replayed(record: CommitRecord, keyed: KeyedRequest) -> Answer:
    """Return the stored answer of a commit to a repeat of its request.

    Raises ExecutionKeyReusedError if the request has another body.
    """
    if record.command.request_hash != keyed.request_hash:
        raise ExecutionKeyReusedError(record.execution_id)
    if record.answer is None or not isinstance(record.answer.get("body"), dict):
        raise LogCorruptError(record.execution_id, record.n, "its answer is missing")
    return Answer(HTTPStatus.OK.value, record.answer["body"], is_replay=True)


def rejection(
    requested: Requested, rejected: Rejected, state: ExecutionState, *, is_recorded: bool = False
) -> CommandRejectedError:
    """Return the error for a rejected command; its details describe `state`."""
    details = dict(rejected.details)
    command = requested.command
    node = state.nodes.get(command.node_id) if isinstance(command, NodeCommandBase) else None
    if is_recorded:
        details["recorded"] = True
    return CommandRejectedError(
        requested.command.name,
        rejected.reason,
        status=state.status.value,
        seq=state.seq,
        node_status=None if node is None else node.status.value,
        details=details,
    )
