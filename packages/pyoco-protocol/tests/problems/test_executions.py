"""The codes and details of errors on the routes of executions and graphs."""

import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest

from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.problems import (
    CATALOGUE,
    ApiKeyInvalidError,
    ApiKeyMissingError,
    BodyTooLargeError,
    BrokerLoginError,
    BrokerPermissionError,
    BrokerTooOldError,
    BrokerUnavailableError,
    CommandRejectedError,
    ContentEncodingError,
    ExecutionBusyError,
    ExecutionKeyReusedError,
    ExecutionNotFoundError,
    ExecutionPayloadTooLargeError,
    ExecutionProblem,
    ExecutionsUnavailableError,
    ForeignOriginError,
    GraphNotFoundError,
    GraphRefusedError,
    HeadersTooLargeError,
    HostNotAllowedError,
    HostUnclearError,
    HttpVersionError,
    IdempotencyKeyRequiredError,
    IdempotencyKeyReusedError,
    IndexNotReadyError,
    InputInvalidError,
    InternalError,
    InvalidHttpError,
    InvalidRequestError,
    ListNotReadyError,
    ListQueryError,
    LogTooNewError,
    MethodNotAllowedError,
    OutcomeUnknownError,
    Problem,
    PyocoError,
    RequestTimedOutError,
    RouteNotFoundError,
    ScopeMissingError,
    SeqNotReachedError,
    SlowRequestError,
    TooManyRequestsError,
    UnsupportedContentTypeError,
    VersionMismatchError,
)
from pyoco_protocol.problems import executions as execution_errors
from pyoco_protocol.problems.rejection_texts import JAPANESE
from pyoco_testkit.documents import tables_in

EXECUTION = "c0dec0de-3f5b-4f0e-9a51-0c2f7a11d3b4"
PAGE = Path(__file__).parents[4] / "docs" / "errors.md"
REJECTED = CommandRejectedError(
    "ResumeNode",
    Rejection.EXECUTION_CANCEL_REQUESTED,
    status="ACTIVE",
    seq=21,
    node_status="WAITING",
    details={"recorded": True},
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiKeyMissingError("X-API-Key"), "UNAUTHENTICATED"),
        (ApiKeyInvalidError(), "UNAUTHENTICATED"),
        (ScopeMissingError("executions:write"), "FORBIDDEN"),
        (ForeignOriginError("https://evil.example"), "FORBIDDEN"),
        (HostNotAllowedError("evil.example"), "MISDIRECTED_REQUEST"),
        (HostUnclearError("is missing"), "BAD_REQUEST"),
        (InvalidHttpError("x"), "BAD_REQUEST"),
        (SlowRequestError("head"), "REQUEST_TIMEOUT"),
        (HeadersTooLargeError(1, 2), "HEADERS_TOO_LARGE"),
        (HttpVersionError("2.0"), "HTTP_VERSION_NOT_SUPPORTED"),
        (TooManyRequestsError(3), "TOO_MANY_REQUESTS"),
        (RouteNotFoundError("/graphs/x/y"), "NOT_FOUND"),
        (MethodNotAllowedError("PUT", "/waits"), "METHOD_NOT_ALLOWED"),
        (UnsupportedContentTypeError(None, ["x"]), "UNSUPPORTED_MEDIA_TYPE"),
        (ContentEncodingError("gzip"), "UNSUPPORTED_MEDIA_TYPE"),
        (BodyTooLargeError(1), "PAYLOAD_TOO_LARGE"),
        (InvalidRequestError([("a", "b")]), "INVALID_REQUEST"),
        (ListQueryError([("a", "b")]), "INVALID_REQUEST"),
        (InternalError("x"), "INTERNAL"),
        (BrokerUnavailableError("x"), "BROKER_UNAVAILABLE"),
        (BrokerPermissionError("publish", "x", "y"), "BROKER_UNAVAILABLE"),
        (BrokerLoginError("x", "y"), "BROKER_UNAVAILABLE"),
        (BrokerTooOldError("2.10.0", 1, 4), "BROKER_UNAVAILABLE"),
        (ExecutionsUnavailableError("x"), "BROKER_UNAVAILABLE"),
        (RequestTimedOutError(60), "OUTCOME_UNKNOWN"),
        (OutcomeUnknownError(EXECUTION), "OUTCOME_UNKNOWN"),
        (ListNotReadyError(2), "INDEX_NOT_READY"),
        (IndexNotReadyError(), "INDEX_NOT_READY"),
        (IdempotencyKeyReusedError("r"), "IDEMPOTENCY_KEY_REUSED"),
        (ExecutionKeyReusedError(EXECUTION), "IDEMPOTENCY_KEY_REUSED"),
        (IdempotencyKeyRequiredError(), "IDEMPOTENCY_KEY_REQUIRED"),
        (VersionMismatchError("g", expected=1, latest=2), "VERSION_MISMATCH"),
        (ExecutionPayloadTooLargeError("input", 1, 2), "PAYLOAD_TOO_LARGE"),
        (InputInvalidError([("a", "b")]), "INPUT_INVALID"),
        (REJECTED, "COMMAND_REJECTED"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PyocoError) else value,
)
def test_an_error_has_its_stable_code(error: PyocoError, code: str) -> None:
    assert error.code == code


@pytest.mark.parametrize("reason", Rejection)
def test_each_rejection_is_a_conflict_with_its_reason(reason: Rejection) -> None:
    error = CommandRejectedError("StartNode", reason, status="ACTIVE", seq=7)

    body = json.loads(ExecutionProblem.of(error).to_json())["error"]
    assert (error.status, body["code"]) == (409, "COMMAND_REJECTED")
    assert (body["details"]["reason"], reason.value) == (reason.name, reason.name)


def test_a_class_with_its_own_status_does_not_inherit_the_code_of_its_base() -> None:
    class GoneError(BrokerUnavailableError):
        status = HTTPStatus.NOT_FOUND

    class SameError(GoneError):
        pass

    assert (GoneError.code, SameError.code) == ("NOT_FOUND", "NOT_FOUND")


def test_a_body_has_code_message_and_details() -> None:
    body = json.loads(ExecutionProblem.of(REJECTED, request_id="r-1").to_json())

    message = "ResumeNode rejected: the execution has a cancel request"
    assert body == {
        "error": {
            "code": "COMMAND_REJECTED",
            "message": message,
            "details": {
                "reason": "EXECUTION_CANCEL_REQUESTED",
                "status": "ACTIVE",
                "nodeStatus": "WAITING",
                "seq": 21,
                "recorded": True,
                "errId": "ERR-PYOCO-0150",
                "requestId": "r-1",
                "detail": message,
                "hint": CATALOGUE["ERR-PYOCO-0150"].hint["en"],
            },
        }
    }


def test_a_body_has_its_texts_in_the_language_of_the_caller() -> None:
    found = ExecutionProblem.of(ExecutionNotFoundError(EXECUTION), language="ja").error

    assert found.message == "executionが見つかりません"
    assert re.search("[ぁ-ん]", found.details.hint)
    assert found.details.detail == f"execution {EXECUTION} not found"


@pytest.mark.parametrize("reason", Rejection)
def test_every_rejection_has_a_message_in_both_languages(reason: Rejection) -> None:
    error = CommandRejectedError("FailNode", reason, status="ACTIVE", seq=1)

    assert error.message() == f"FailNode rejected: {reason.sentence}"
    assert error.message("ja") == f"FailNodeは拒否されました: {JAPANESE[reason]}"
    assert "nodeStatus" not in error.details


def test_fields_of_the_other_body_are_details_in_camel_case() -> None:
    error = BodyTooLargeError(10, 11)

    details = json.loads(ExecutionProblem.of(error).to_json())["error"]["details"]
    assert (details["maxBytes"], details["sizeBytes"]) == (10, 11)


def test_the_scope_is_a_detail_and_not_a_field_of_the_other_body() -> None:
    error = ScopeMissingError("executions:write")

    details = json.loads(ExecutionProblem.of(error).to_json())["error"]["details"]
    assert details["scope"] == "executions:write"
    assert "scope" not in Problem.of(error).model_dump()


def test_a_detail_never_replaces_the_ids() -> None:
    error = CommandRejectedError(
        "FailNode",
        Rejection.NODE_TERMINAL,
        status="ACTIVE",
        seq=3,
        details={"errId": "other", "requestId": "other", "reason": "other", "seq": 9},
    )

    details = json.loads(ExecutionProblem.of(error, request_id="r").to_json())["error"]["details"]
    assert (details["errId"], details["requestId"]) == ("ERR-PYOCO-0150", "r")
    assert (details["reason"], details["seq"]) == ("NODE_TERMINAL", 3)


def test_a_lone_surrogate_is_escaped_in_the_body() -> None:
    error = GraphRefusedError([{"code": "X", "where": "a\ud800", "message": "m"}])

    details = json.loads(ExecutionProblem.of(error).to_json())["error"]["details"]
    assert details["problems"] == [{"code": "X", "where": r"a\ud800", "message": "m"}]


def test_a_graph_with_many_problems_names_their_number_and_the_first() -> None:
    problems = [{"code": "CYCLE", "where": f"nodes[{n}]", "message": "a, b"} for n in range(3)]

    assert GraphRefusedError(problems).detail == "the graph has 3 problems: nodes[0]: a, b"


@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknownError(EXECUTION, retry_after_sec=4),
        ExecutionBusyError(EXECUTION, retry_after_sec=4),
        LogTooNewError(EXECUTION, "v 2", retry_after_sec=4),
        IndexNotReadyError(retry_after_sec=4),
        SeqNotReachedError(9, 7, retry_after_sec=4),
        ExecutionsUnavailableError("x", retry_after_sec=4),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_may_pass_says_when_to_try_again(error: PyocoError) -> None:
    assert error.extra["retry_after_sec"] == 4


def test_an_unknown_graph_names_its_version_if_one_was_asked_for() -> None:
    assert GraphNotFoundError("g").details == {"graphId": "g"}
    assert GraphNotFoundError("g", 3).details == {"graphId": "g", "graphVersion": 3}


def test_the_errors_page_lists_every_code_with_its_status() -> None:
    documented = {
        (int(row["status"]), row["code"]) for row in tables_in(PAGE)["Executions and graphs"]
    }

    own = {
        (int(each.status), each.code)
        for each in vars(execution_errors).values()
        if isinstance(each, type) and issubclass(each, PyocoError) and hasattr(each, "entry")
    }
    assert own <= documented
    assert {code for _, code in documented} >= {
        *("BAD_REQUEST", "UNAUTHENTICATED", "FORBIDDEN", "NOT_FOUND", "METHOD_NOT_ALLOWED"),
        *("REQUEST_TIMEOUT", "UNSUPPORTED_MEDIA_TYPE", "MISDIRECTED_REQUEST", "INVALID_REQUEST"),
        *("TOO_MANY_REQUESTS", "HEADERS_TOO_LARGE", "INTERNAL", "HTTP_VERSION_NOT_SUPPORTED"),
    }
