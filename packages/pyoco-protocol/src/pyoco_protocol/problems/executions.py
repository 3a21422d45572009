"""Errors of executions and graphs. Their codes and details are stable."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.problems.base import FaultyInputError, PyocoError, TooLargeError
from pyoco_protocol.problems.catalogue import CATALOGUE
from pyoco_protocol.problems.catalogue_entry import Language, Texts
from pyoco_protocol.problems.rejection_texts import JAPANESE

_RETRY_AFTER_SEC: Final = 1
_STORE_ELSEWHERE: Final[Texts] = {
    "en": "Store large data elsewhere, and send where it is. The limit is fixed.",
    "ja": "大きなデータは別の場所に保存し、その場所を送ってください。上限は変更できません。",
}


class ExecutionNotFoundError(PyocoError):
    """No execution has this id, or it belongs to another tenant."""

    entry = CATALOGUE["ERR-PYOCO-0146"]
    status = HTTPStatus.NOT_FOUND
    code = "EXECUTION_NOT_FOUND"

    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"execution {execution_id} not found", details={"executionId": execution_id}
        )


class NodeNotFoundError(PyocoError):
    """The graph of the execution has no such node."""

    entry = CATALOGUE["ERR-PYOCO-0147"]
    status = HTTPStatus.NOT_FOUND
    code = "NODE_NOT_FOUND"

    def __init__(self, execution_id: str, node_id: str) -> None:
        super().__init__(
            f"execution {execution_id} has no node {node_id}",
            details={"executionId": execution_id, "nodeId": node_id},
        )


class GraphNotFoundError(PyocoError):
    """No graph has this id, it has no such version, or it belongs to another tenant."""

    entry = CATALOGUE["ERR-PYOCO-0148"]
    status = HTTPStatus.NOT_FOUND
    code = "GRAPH_NOT_FOUND"

    def __init__(self, graph_id: str, version: int | None = None) -> None:
        named = graph_id if version is None else f"{graph_id} version {version}"
        super().__init__(
            f"graph {named} not found", details={"graphId": graph_id, "graphVersion": version}
        )


class CommitNotFoundError(PyocoError):
    """The log of the execution has no commit with this number."""

    entry = CATALOGUE["ERR-PYOCO-0149"]
    status = HTTPStatus.NOT_FOUND
    code = "COMMIT_NOT_FOUND"

    def __init__(self, execution_id: str, n: int) -> None:
        super().__init__(
            f"execution {execution_id} has no commit {n}",
            details={"executionId": execution_id, "n": n},
        )


class CommandRejectedError(PyocoError):
    """A guard rejected the command in the current state of the execution.

    `status`, `node_status` and `seq` describe this state. `details` adds further fields, such as
    `retryAt` and `recorded`.
    """

    entry = CATALOGUE["ERR-PYOCO-0150"]
    status = HTTPStatus.CONFLICT
    code = "COMMAND_REJECTED"

    def __init__(
        self,
        command: str,
        reason: Rejection,
        *,
        status: str,
        seq: int,
        node_status: str | None = None,
        details: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(
            f"{command} rejected: {reason.sentence}",
            details={
                **(details or {}),
                "reason": reason.value,
                "status": status,
                "nodeStatus": node_status,
                "seq": seq,
            },
        )
        self.command = command
        self.reason = reason

    def message(self, language: Language = "en") -> str:
        """Return which command was rejected and why."""
        if language == "ja":
            return f"{self.command}は拒否されました: {JAPANESE[self.reason]}"
        return self.detail


class ExecutionKeyReusedError(PyocoError):
    """An idempotency key was used again with another body."""

    entry = CATALOGUE["ERR-PYOCO-0102"]
    status = HTTPStatus.CONFLICT
    code = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"the idempotency key belongs to another request for execution {execution_id}",
            details={"executionId": execution_id},
        )


class VersionMismatchError(PyocoError):
    """The latest version of a graph is not the one in `If-Match`; 0 if there is none."""

    entry = CATALOGUE["ERR-PYOCO-0151"]
    status = HTTPStatus.PRECONDITION_FAILED
    code = "VERSION_MISMATCH"

    def __init__(self, graph_id: str, *, expected: int, latest: int) -> None:
        super().__init__(
            f"the latest version of graph {graph_id} is {latest}, not {expected}",
            details={"graphId": graph_id, "expected": expected, "latest": latest},
        )


class ExecutionPayloadTooLargeError(TooLargeError):
    """A value in the body, such as `input` or `output`, is above its limit."""

    entry = CATALOGUE["ERR-PYOCO-0101"]
    code = "PAYLOAD_TOO_LARGE"

    def __init__(self, where: str, max_bytes: int, size_bytes: int) -> None:
        super().__init__(max_bytes, size_bytes, what=where, hint=_STORE_ELSEWHERE)
        self.details["where"] = where


class IdempotencyKeyRequiredError(PyocoError):
    """The request has no `X-Idempotency-Key`."""

    entry = CATALOGUE["ERR-PYOCO-0152"]
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "IDEMPOTENCY_KEY_REQUIRED"

    def __init__(self) -> None:
        super().__init__("the header X-Idempotency-Key is missing")


class InputInvalidError(FaultyInputError):
    """The input does not fit the `inputSchema` of the graph."""

    entry = CATALOGUE["ERR-PYOCO-0153"]
    code = "INPUT_INVALID"


class GraphRefusedError(PyocoError):
    """A graph document is invalid; lists its faults as `{code, where, message}`."""

    entry = CATALOGUE["ERR-PYOCO-0154"]
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "GRAPH_INVALID"

    def __init__(self, problems: Sequence[Mapping[str, JsonValue]]) -> None:
        listed: list[JsonValue] = [dict(problem) for problem in problems]
        first = f": {problems[0]['where']}: {problems[0]['message']}" if problems else ""
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"the graph has {count}{first}", details={"problems": listed})


class ApprovalsNeedKeysError(PyocoError):
    """The graph needs approvals, but the gateway works without API keys."""

    entry = CATALOGUE["ERR-PYOCO-0155"]
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "APPROVALS_NEED_KEYS"

    def __init__(self, graph_id: str) -> None:
        super().__init__(
            f"graph {graph_id} asks for approvals, and authentication is off",
            details={"graphId": graph_id},
        )


class SeqOutOfRangeError(PyocoError):
    """`atSeq` is beyond the last event of the execution."""

    entry = CATALOGUE["ERR-PYOCO-0156"]
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "SEQ_OUT_OF_RANGE"

    def __init__(self, seq: int, last_seq: int) -> None:
        super().__init__(
            f"the last event has seq {last_seq}; {seq} is beyond it",
            details={"seq": seq, "lastSeq": last_seq},
        )


class LogCorruptError(PyocoError):
    """A commit does not fit the one before it."""

    entry = CATALOGUE["ERR-PYOCO-0157"]
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    code = "LOG_CORRUPT"

    def __init__(self, execution_id: str, n: int, problem: str) -> None:
        super().__init__(
            f"commit {n} of execution {execution_id} is damaged: {problem}",
            details={"executionId": execution_id, "n": n, "problem": problem},
        )


class GraphCorruptError(PyocoError):
    """A stored graph does not match its hash, or cannot be read."""

    entry = CATALOGUE["ERR-PYOCO-0158"]
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    code = "GRAPH_CORRUPT"

    def __init__(self, graph_id: str, version: int, problem: str) -> None:
        super().__init__(
            f"version {version} of graph {graph_id} is damaged: {problem}",
            details={"graphId": graph_id, "graphVersion": version, "problem": problem},
        )


class _LaterError(PyocoError):
    """The request may succeed later; the answer says after how many seconds to repeat it."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(
        self,
        detail: str,
        details: Mapping[str, JsonValue] | None = None,
        *,
        retry_after_sec: int = _RETRY_AFTER_SEC,
    ) -> None:
        super().__init__(detail, extra={"retry_after_sec": retry_after_sec}, details=details)


class OutcomeUnknownError(_LaterError):
    """The broker did not answer in time, so the command may or may not be committed."""

    entry = CATALOGUE["ERR-PYOCO-0159"]
    code = "OUTCOME_UNKNOWN"

    def __init__(self, execution_id: str, *, retry_after_sec: int = _RETRY_AFTER_SEC) -> None:
        super().__init__(
            f"no answer from the broker; execution {execution_id} may or may not have the command",
            {"executionId": execution_id},
            retry_after_sec=retry_after_sec,
        )


class ExecutionBusyError(_LaterError):
    """Other writers were faster in every round."""

    entry = CATALOGUE["ERR-PYOCO-0160"]
    code = "EXECUTION_BUSY"

    def __init__(self, execution_id: str, *, retry_after_sec: int = _RETRY_AFTER_SEC) -> None:
        super().__init__(
            f"execution {execution_id} is changed by many commands at once",
            {"executionId": execution_id},
            retry_after_sec=retry_after_sec,
        )


class LogTooNewError(_LaterError):
    """The log has a version or an event type that this gateway does not know."""

    entry = CATALOGUE["ERR-PYOCO-0161"]
    code = "LOG_TOO_NEW"

    def __init__(
        self, execution_id: str, problem: str, *, retry_after_sec: int = _RETRY_AFTER_SEC
    ) -> None:
        super().__init__(
            f"the log of execution {execution_id} is newer than this gateway: {problem}",
            {"executionId": execution_id},
            retry_after_sec=retry_after_sec,
        )


class IndexNotReadyError(_LaterError):
    """The gateway has not read all executions yet, so a list would be incomplete."""

    entry = CATALOGUE["ERR-PYOCO-0162"]
    code = "INDEX_NOT_READY"

    def __init__(self, *, retry_after_sec: int = _RETRY_AFTER_SEC) -> None:
        super().__init__(
            "the gateway has not read all executions yet", retry_after_sec=retry_after_sec
        )


class SeqNotReachedError(_LaterError):
    """The execution did not reach `minSeq` within `waitSec`."""

    entry = CATALOGUE["ERR-PYOCO-0163"]
    code = "SEQ_NOT_REACHED"

    def __init__(
        self, min_seq: int, last_seq: int, *, retry_after_sec: int = _RETRY_AFTER_SEC
    ) -> None:
        super().__init__(
            f"the last event has seq {last_seq}; {min_seq} is not reached yet",
            {"minSeq": min_seq, "lastSeq": last_seq},
            retry_after_sec=retry_after_sec,
        )


class ExecutionsUnavailableError(_LaterError):
    """The broker lacks the streams of executions, or does not permit their use."""

    entry = CATALOGUE["ERR-PYOCO-0164"]
    code = "BROKER_UNAVAILABLE"

    def __init__(self, cause: str, *, retry_after_sec: int = _RETRY_AFTER_SEC) -> None:
        super().__init__(f"executions unavailable: {cause}", retry_after_sec=retry_after_sec)
