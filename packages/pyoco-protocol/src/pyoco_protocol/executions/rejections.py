"""The stable codes of rejected commands: `error.details.reason` under `COMMAND_REJECTED`."""

from enum import StrEnum


class Rejection(StrEnum):
    """Why a command was rejected in the current state."""

    EXECUTION_TERMINAL = "EXECUTION_TERMINAL"
    EXECUTION_CANCEL_REQUESTED = "EXECUTION_CANCEL_REQUESTED"
    EXECUTION_FAILING = "EXECUTION_FAILING"
    EXECUTION_TOO_LONG = "EXECUTION_TOO_LONG"
    EXECUTION_NOT_TERMINAL = "EXECUTION_NOT_TERMINAL"
    NODE_TYPE = "NODE_TYPE"
    NODE_BOUND = "NODE_BOUND"
    NODE_TERMINAL = "NODE_TERMINAL"
    NODE_CANCEL_REQUESTED = "NODE_CANCEL_REQUESTED"
    STALE_ATTEMPT = "STALE_ATTEMPT"
    NODE_ALREADY_STARTED = "NODE_ALREADY_STARTED"
    NODE_NOT_READY = "NODE_NOT_READY"
    RETRY_NOT_DUE = "RETRY_NOT_DUE"
    NODE_NOT_RUNNING = "NODE_NOT_RUNNING"
    NODE_NOT_WAITING = "NODE_NOT_WAITING"
    RESUME_KEY_MISMATCH = "RESUME_KEY_MISMATCH"
    NOT_AN_APPROVER = "NOT_AN_APPROVER"
    APPROVALS_REQUIRED = "APPROVALS_REQUIRED"

    @property
    def sentence(self) -> str:
        """The reason in plain words, for the message of the answer."""
        return _SENTENCES[self]


_SENTENCES = {
    Rejection.EXECUTION_TERMINAL: "the execution has ended",
    Rejection.EXECUTION_CANCEL_REQUESTED: "the execution has a cancel request",
    Rejection.EXECUTION_FAILING: "the execution is failing",
    Rejection.EXECUTION_TOO_LONG: "the execution has reached its maximum number of events",
    Rejection.EXECUTION_NOT_TERMINAL: "the execution has not ended",
    Rejection.NODE_TYPE: "nodes of this type do not take this command",
    Rejection.NODE_BOUND: "the node is executed as a run, so only the server reports for it",
    Rejection.NODE_TERMINAL: "the node has ended",
    Rejection.NODE_CANCEL_REQUESTED: "the node has a cancel request",
    Rejection.STALE_ATTEMPT: "the attempt or worker is not the current one",
    Rejection.NODE_ALREADY_STARTED: "the node was already started",
    Rejection.NODE_NOT_READY: "the node is not ready",
    Rejection.RETRY_NOT_DUE: "the next attempt may not start yet",
    Rejection.NODE_NOT_RUNNING: "the node is not running",
    Rejection.NODE_NOT_WAITING: "the node is not waiting",
    Rejection.RESUME_KEY_MISMATCH: "the resume key does not match the wait key",
    Rejection.NOT_AN_APPROVER: "the caller is not one of the approvers",
    Rejection.APPROVALS_REQUIRED: "the node needs approvals: approve it (HTTP: resume-request)",
}
