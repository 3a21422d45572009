import pickle
import traceback

import pytest

from execution_answers import problem, rejection
from pyoco_client.error_mapping import api_error
from pyoco_client.errors import (
    IdempotencyConflictError,
    ListNotReadyError,
    NotSupportedError,
    PyocoError,
    RequestTooLargeError,
    ScopeMissingError,
    WaitTimeoutError,
)
from pyoco_client.execution_errors import (
    CommandRejectedError,
    ExecutionBusyError,
    ExecutionNotFoundError,
    ExecutionWaitTimeoutError,
    GraphInvalidError,
    OutcomeUnknownError,
    SeqNotReachedError,
    TaskCancelledError,
    VersionMismatchError,
)
from pyoco_client.retry_rules import Repeat, may_repeat


@pytest.mark.parametrize(
    ("status", "code", "number", "kind"),
    [
        (404, "EXECUTION_NOT_FOUND", "0146", ExecutionNotFoundError),
        (409, "COMMAND_REJECTED", "0150", CommandRejectedError),
        (409, "IDEMPOTENCY_KEY_REUSED", "0102", IdempotencyConflictError),
        (412, "VERSION_MISMATCH", "0151", VersionMismatchError),
        (413, "PAYLOAD_TOO_LARGE", "0101", RequestTooLargeError),
        (422, "GRAPH_INVALID", "0154", GraphInvalidError),
        (503, "INDEX_NOT_READY", "0162", ListNotReadyError),
        (403, "FORBIDDEN", "0130", ScopeMissingError),
        (404, "NOT_FOUND", "0110", NotSupportedError),
    ],
)
def test_an_error_of_an_execution_has_a_class_a_code_and_a_hint(
    status: int, code: str, number: str, kind: type[PyocoError]
) -> None:
    error = api_error(status, problem(code, number, odd=1))
    assert type(error) is kind
    assert (error.code, error.err_id, error.status) == (code, f"ERR-PYOCO-{number}", status)
    assert (error.message, error.hint, error.detail, error.request_id) == ("m", "h", "d", "r")
    assert error.details["odd"] == 1


def test_an_unknown_code_has_the_class_of_its_status() -> None:
    assert type(api_error(412, problem("NEWER", "0999"))).__name__ == "ConflictError"
    assert api_error(409, {"error": "odd"}).code is None
    assert api_error(409, {"error": {"code": "A", "details": []}}).code == "A"


def test_a_rejection_says_why_and_in_which_state() -> None:
    error = api_error(409, rejection("EXECUTION_FAILING", recorded=True))
    assert isinstance(error, CommandRejectedError)
    state = (error.reason, error.execution_status, error.node_status, error.seq)
    assert state == ("EXECUTION_FAILING", "ACTIVE", "RUNNING", 9)
    assert error.is_recorded
    # The status of HTTP decides about repetitions, so it keeps its name.
    assert error.status == 409
    empty = api_error(409, problem("COMMAND_REJECTED", "0150"))
    assert isinstance(empty, CommandRejectedError)
    assert (empty.reason, empty.seq, empty.is_recorded) == (None, None, False)


def test_the_problems_of_a_graph_are_listed_and_in_the_traceback() -> None:
    fault = {"code": "CYCLE", "where": "nodes", "message": "a, b"}
    error = api_error(422, problem("GRAPH_INVALID", "0154", problems=[fault]))
    assert error.problems == (fault,)
    assert "nodes: a, b" in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("number", ["0159", "0160", "0161", "0162", "0164"])
def test_what_may_pass_is_repeated(number: str) -> None:
    assert may_repeat(api_error(503, problem("X", number)), Repeat.ALWAYS)


def test_a_wait_for_an_event_is_not_repeated() -> None:
    error = api_error(503, problem("SEQ_NOT_REACHED", "0163"))
    assert isinstance(error, SeqNotReachedError)
    assert not may_repeat(error, Repeat.ALWAYS)


def test_a_wait_for_an_execution_ends_like_one_for_a_run() -> None:
    error = ExecutionWaitTimeoutError("x", 3.0, "ACTIVE")
    assert isinstance(error, WaitTimeoutError)
    assert (error.execution_id, error.last_status) == ("x", "ACTIVE")
    assert str(error) == "execution x is ACTIVE after 3 s"


@pytest.mark.parametrize(
    "error",
    [
        api_error(409, rejection("STALE_ATTEMPT")),
        api_error(503, problem("OUTCOME_UNKNOWN", "0159"), 2.0),
        ExecutionWaitTimeoutError("x", 3.0, None),
        TaskCancelledError("x", "n", "EXECUTION_CANCEL_REQUESTED"),
    ],
)
def test_errors_can_be_pickled(error: PyocoError) -> None:
    restored = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert restored.__dict__ == error.__dict__


def test_both_failures_of_many_commands_have_their_class() -> None:
    assert type(api_error(503, problem("OUTCOME_UNKNOWN", "0159"))) is OutcomeUnknownError
    assert type(api_error(503, problem("EXECUTION_BUSY", "0160"))) is ExecutionBusyError
