import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import get_args

import pytest

from pyoco_protocol import problems
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.problems import (
    CATALOGUE,
    ApiKeyInvalidError,
    ApiKeyMissingError,
    ApiKeyNotFoundError,
    ApiKeyUnchangeableError,
    ApprovalsNeedKeysError,
    AttemptsExhaustedError,
    BodyTooLargeError,
    BrokerLockHeldError,
    BrokerLoginError,
    BrokerPermissionError,
    BrokerTlsError,
    BrokerTooOldError,
    BrokerUnavailableError,
    CallableNotAllowedError,
    CancelTimeoutError,
    ChildDiedError,
    ChildLimitError,
    CliUsageError,
    CommandRejectedError,
    CommitNotFoundError,
    ContentEncodingError,
    DeadLetterNotFoundError,
    DlqPublishError,
    EmbeddedBrokerError,
    ExecutionBusyError,
    ExecutionFailedError,
    ExecutionKeyReusedError,
    ExecutionNotFoundError,
    ExecutionPayloadTooLargeError,
    ExecutionsUnavailableError,
    FlowNotFoundError,
    ForeignOriginError,
    GatewayUnreachableError,
    GraphCorruptError,
    GraphNotFoundError,
    GraphRefusedError,
    HeadersTooLargeError,
    HostNotAllowedError,
    HostUnclearError,
    HttpVersionError,
    IdempotencyKeyRequiredError,
    IdempotencyKeyReusedError,
    IndexNotReadyError,
    InProgressError,
    InputInvalidError,
    InternalError,
    InvalidHttpError,
    InvalidJobError,
    InvalidRequestError,
    JobSignatureError,
    Language,
    ListNotReadyError,
    ListQueryError,
    LogCorruptError,
    LoggingSetupError,
    LogTooNewError,
    MethodNotAllowedError,
    NodeNotFoundError,
    NotRedrivableError,
    OrphanRunError,
    OutcomeUnknownError,
    ParamsTooLargeError,
    PortBusyError,
    Problem,
    PyocoError,
    RequestTimedOutError,
    RouteNotFoundError,
    RunNotFoundError,
    RunNotOverError,
    RunTimedOutError,
    ScopeMissingError,
    SeqNotReachedError,
    SeqOutOfRangeError,
    SettingProblem,
    SettingsError,
    SlowRequestError,
    SnapshotTooLargeError,
    SnapshotUnreadableError,
    SubmitOutcomeUnknownError,
    TerminalWriteError,
    TooManyRequestsError,
    UnsupportedContentTypeError,
    VersionMismatchError,
    WheelNotFoundError,
    WheelSyncError,
    WheelTooLargeError,
    WheelVersionError,
    WorkerIdTakenError,
    WorkerNotFoundError,
    WorkersRequestError,
    WorkflowRefusedError,
    WorkflowTextGoneError,
    WorkflowTooLargeError,
)

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
SPEC_NUMBERS = [f"{number:04}" for number in range(1, 25)]
SERVER_NUMBERS = [
    f"{number:04}" for number in (*range(101, 121), 123, 125, 126, 130, *range(133, 165))
]
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")

# Copied from the message table of the published specification.
SPEC_MESSAGES_JA = {
    "0001": "稼働確認に失敗しました",
    "0002": "リクエストが不正です",
    "0003": "NATSが利用できません",
    "0004": "孤児runが残っている可能性があります（best-effort cleanup失敗）",
    "0005": "runが見つかりません",
    "0006": "flowが見つかりません",
    "0007": "実行に失敗しました",
    "0008": "terminal状態の記録に失敗しました",
    "0009": "in_progress ACK の送信に失敗しました",
    "0010": "スナップショットが大きすぎます",
    "0011": "DLQへのpublishに失敗しました（best-effort）",
    "0012": "不正なジョブを受信しました",
    "0013": "ログ出力に失敗しました（best-effort）",
    "0014": "API key が必要です",
    "0015": "API key が無効です",
    "0016": "ワークフローファイルが大きすぎます",
    "0017": "一覧クエリが不正です",
    "0018": "CLI引数が不正です（入力形式を確認してください）",
    "0019": "workersリクエストが不正です",
    "0020": "workerが見つかりません",
    "0021": "cancel要求がタイムアウトしました（best-effort）",
    "0022": "wheelバージョンが不正です（同一/過去バージョンは不可）",
    "0023": "wheelが見つかりません",
    "0024": "wheel同期に失敗しました（best-effort）",
}
NOT_RETRYABLE = {
    "0005",
    "0006",
    "0012",
    "0102",
    "0105",
    "0107",
    "0110",
    "0111",
    "0115",
    "0117",
    "0119",
    "0120",
    "0125",
    "0126",
    "0133",
    "0134",
    "0136",
    "0146",
    "0147",
    "0148",
    "0149",
    "0157",
    "0158",
}

FAULTS = [("params.n", "must be a number"), ("tag", "must not hold a dot")]
# One instance of each error, with its number and its status.
EXAMPLES: list[tuple[PyocoError, str, int]] = [
    (GatewayUnreachableError("http://127.0.0.1:8000", "refused"), "0001", 503),
    (InvalidRequestError(FAULTS), "0002", 422),
    (WheelTooLargeError(10, 11), "0002", 413),
    (WorkflowRefusedError([{"where": "flow", "what": "is missing"}], "flow"), "0002", 422),
    (BrokerUnavailableError("not connected"), "0003", 503),
    (OrphanRunError(RUN, "timeout"), "0004", 500),
    (RunNotFoundError(RUN), "0005", 404),
    (FlowNotFoundError("nap"), "0006", 500),
    (ExecutionFailedError(RUN, "ValueError"), "0007", 500),
    (TerminalWriteError(RUN, "timeout"), "0008", 500),
    (InProgressError(RUN, "timeout"), "0009", 500),
    (SnapshotTooLargeError(RUN, 11, 10), "0010", 500),
    (DlqPublishError(None, "timeout"), "0011", 500),
    (InvalidJobError(FAULTS), "0012", 422),
    (LoggingSetupError("closed"), "0013", 500),
    (ApiKeyMissingError("X-API-Key"), "0014", 401),
    (ApiKeyInvalidError(), "0015", 403),
    (WorkflowTooLargeError(10), "0016", 413),
    (ListQueryError(FAULTS), "0017", 422),
    (CliUsageError("--params is not JSON", "--params '{}'"), "0018", 500),
    (WorkersRequestError(FAULTS), "0019", 422),
    (WorkerNotFoundError("w1"), "0020", 404),
    (CancelTimeoutError(RUN, 30), "0021", 500),
    (WheelVersionError("pkg", "1.0", "1.1"), "0022", 409),
    (WheelNotFoundError("a.whl"), "0023", 404),
    (WheelSyncError("a.whl", "disk full"), "0024", 500),
    (CallableNotAllowedError(RUN, "os:system"), "0119", 500),
    (WorkflowTextGoneError(RUN, "ab12"), "0125", 409),
    (ParamsTooLargeError(10, 11), "0101", 413),
    (BodyTooLargeError(10), "0101", 413),
    (IdempotencyKeyReusedError(RUN), "0102", 409),
    (UnsupportedContentTypeError(None, ["application/json"]), "0103", 415),
    (ScopeMissingError("ops"), "0130", 403),
    (ApiKeyNotFoundError("a2b3c4d5e6f7"), "0133", 404),
    (ApiKeyUnchangeableError("a2b3c4d5e6f7", "is revoked"), "0134", 409),
    (HostNotAllowedError("evil.example"), "0135", 421),
    (HostUnclearError("is missing"), "0135", 400),
    (ForeignOriginError("https://evil.example"), "0136", 403),
    (RequestTimedOutError(60), "0137", 503),
    (SlowRequestError("body"), "0138", 408),
    (HeadersTooLargeError(100, 32768), "0139", 431),
    (ContentEncodingError("gzip"), "0103", 415),
    (TooManyRequestsError(3), "0104", 429),
    (DeadLetterNotFoundError("7"), "0105", 404),
    (RunNotOverError(RUN, "RUNNING"), "0118", 409),
    (NotRedrivableError(7, "it names no run"), "0120", 409),
    (InternalError("a1b2"), "0106", 500),
    (SubmitOutcomeUnknownError(RUN), "0107", 503),
    (SettingsError([SettingProblem("PYOCO_REPLICAS", "is too large", "3")]), "0108", 500),
    (BrokerTooOldError("2.10.0", 1, 4), "0109", 503),
    (BrokerPermissionError("publishing", "pyoco.work.gpu", "somebody"), "0140", 503),
    (BrokerLoginError("somebody", "authorization violation"), "0142", 503),
    (BrokerTlsError("its certificate is not trusted"), "0143", 503),
    (HttpVersionError("2.0"), "0144", 505),
    (InvalidHttpError("Invalid method encountered"), "0145", 400),
    (JobSignatureError("is missing"), "0141", 422),
    (RouteNotFoundError("/nope"), "0110", 404),
    (MethodNotAllowedError("PUT", "/runs"), "0111", 405),
    (EmbeddedBrokerError("not up in 10 s"), "0112", 500),
    (PortBusyError(4222, "--nats-port"), "0112", 500),
    (BrokerLockHeldError("/var/lib/nats", 42), "0112", 500),
    (ChildDiedError(RUN, "signal 11"), "0113", 500),
    (ChildLimitError(RUN, "5 seconds of CPU time"), "0126", 500),
    (RunTimedOutError(RUN, 60), "0114", 500),
    (SnapshotUnreadableError(RUN), "0115", 500),
    (AttemptsExhaustedError(RUN, 20), "0116", 500),
    (WorkerIdTakenError("w1", "life"), "0117", 500),
    (ListNotReadyError(2), "0123", 503),
    (WorkerIdTakenError("gpu-1", "4f0e9a51"), "0117", 500),
    (ExecutionNotFoundError(RUN), "0146", 404),
    (NodeNotFoundError(RUN, "fetch"), "0147", 404),
    (GraphNotFoundError("order-intake", 3), "0148", 404),
    (CommitNotFoundError(RUN, 7), "0149", 404),
    (
        CommandRejectedError("StartNode", Rejection.NODE_NOT_READY, status="ACTIVE", seq=7),
        "0150",
        409,
    ),
    (ExecutionKeyReusedError(RUN), "0102", 409),
    (VersionMismatchError("order-intake", expected=2, latest=3), "0151", 412),
    (ExecutionPayloadTooLargeError("output", 65_536, 65_537), "0101", 413),
    (IdempotencyKeyRequiredError(), "0152", 422),
    (InputInvalidError(FAULTS), "0153", 422),
    (GraphRefusedError([{"code": "CYCLE", "where": "nodes", "message": "a, b"}]), "0154", 422),
    (ApprovalsNeedKeysError("order-intake"), "0155", 422),
    (SeqOutOfRangeError(9, 7), "0156", 422),
    (LogCorruptError(RUN, 3, "prevHash differs"), "0157", 500),
    (GraphCorruptError("order-intake", 3, "the hash differs"), "0158", 500),
    (OutcomeUnknownError(RUN), "0159", 503),
    (ExecutionBusyError(RUN), "0160", 503),
    (LogTooNewError(RUN, "version 2"), "0161", 503),
    (IndexNotReadyError(), "0162", 503),
    (SeqNotReachedError(9, 7), "0163", 503),
    (ExecutionsUnavailableError("the stream is missing"), "0164", 503),
]


WITH_LOG_TEXT = {BrokerPermissionError, BrokerLoginError}


def error_classes(cls: type[PyocoError]) -> Iterator[type[PyocoError]]:
    """Yield all error classes of the package from `cls` down."""
    if cls.__module__.startswith("pyoco_protocol.problems"):
        below = [c for c in cls.__subclasses__() if c.__module__.startswith(problems.__name__)]
        # A class with an entry is an error itself, even if it has subclasses.
        if not below or "entry" in vars(cls):
            yield cls
        for subclass in below:
            yield from error_classes(subclass)


def name_of(value: object) -> str:
    return type(value).__name__ if isinstance(value, PyocoError) else ""


def test_the_catalogue_has_all_numbers_in_order() -> None:
    assert list(CATALOGUE) == [f"ERR-PYOCO-{number}" for number in (*SPEC_NUMBERS, *SERVER_NUMBERS)]


@pytest.mark.parametrize("err_id", CATALOGUE)
def test_an_entry_has_its_own_error_id_and_the_matching_message_id(err_id: str) -> None:
    entry = CATALOGUE[err_id]
    assert entry.err_id == err_id
    assert entry.msg_id == err_id.replace("ERR", "MSG")


@pytest.mark.parametrize("err_id", CATALOGUE)
def test_an_entry_has_texts_in_both_languages(err_id: str) -> None:
    entry = CATALOGUE[err_id]
    for texts in (entry.message, entry.hint):
        assert set(texts) == set(get_args(Language))
        assert all(text == text.strip() != "" for text in texts.values())
        assert JAPANESE.search(texts["ja"])
        assert not JAPANESE.search(texts["en"])


def test_no_two_entries_have_the_same_message() -> None:
    for language in get_args(Language):
        messages = [entry.message[language] for entry in CATALOGUE.values()]
        assert len(set(messages)) == len(messages)


def test_the_japanese_messages_are_those_of_the_specification() -> None:
    found = {number: CATALOGUE[f"ERR-PYOCO-{number}"].message["ja"] for number in SPEC_NUMBERS}
    assert found == SPEC_MESSAGES_JA


def test_exactly_these_entries_are_not_retryable() -> None:
    found = {err_id[-4:] for err_id, entry in CATALOGUE.items() if not entry.retryable}
    assert found == NOT_RETRYABLE


# What no command does.
ONLY_HTTP = ("GET /openapi.json", "GET /wheels", "GET /executions/{executionId}/events/verify")


@pytest.mark.parametrize("language", get_args(Language))
@pytest.mark.parametrize("err_id", CATALOGUE)
def test_a_hint_helps_users_of_http_and_of_the_command_line(
    err_id: str, language: Language
) -> None:
    hint = CATALOGUE[err_id].hint[language]
    routes = re.findall(r"(?:GET|POST|PUT|DELETE) /[!-~]*", hint)
    in_header = re.search("Retry-After|If-Match|X-[A-Z]", hint)
    if in_header or any(not route.startswith(ONLY_HTTP) for route in routes):
        assert "pyoco-client" in hint or "HTTP: " in hint or "HTTPでは" in hint
    # The command line prints these fields without their names.
    assert "details." not in hint


def test_a_wait_with_approvals_that_is_resumed_is_to_be_approved() -> None:
    error = CommandRejectedError(
        "ResumeNode", Rejection.APPROVALS_REQUIRED, status="ACTIVE", seq=7, node_status="WAITING"
    )
    # As the command line calls it, and as HTTP does.
    assert "approve it (HTTP: resume-request)" in error.message("en")
    assert "承認してください（HTTPではresume-request）" in error.message("ja")


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE["ERR-PYOCO-0001"] = CATALOGUE["ERR-PYOCO-0002"]  # type: ignore[index]  # the point
    with pytest.raises(TypeError):
        CATALOGUE["ERR-PYOCO-0001"].message["en"] = ""  # type: ignore[index]  # the point


@pytest.mark.parametrize(("error", "number", "status"), EXAMPLES, ids=name_of)
def test_an_error_has_its_entry_and_its_status(error: PyocoError, number: str, status: int) -> None:
    assert error.entry is CATALOGUE[f"ERR-PYOCO-{number}"]
    assert error.status is HTTPStatus(status)
    assert error.detail
    if type(error) not in WITH_LOG_TEXT:
        assert str(error) == error.detail


@pytest.mark.parametrize(
    "error", [error for error, _, _ in EXAMPLES if type(error) in WITH_LOG_TEXT], ids=name_of
)
def test_the_broker_user_is_in_the_log_text_and_not_in_the_body(error: PyocoError) -> None:
    assert "somebody" in str(error)
    assert "somebody" not in Problem.of(error).model_dump_json()


def test_the_examples_include_every_error_class() -> None:
    assert {type(error) for error, _, _ in EXAMPLES} == set(error_classes(PyocoError))


def test_every_entry_has_an_error() -> None:
    assert {error.entry.err_id for error, _, _ in EXAMPLES} == set(CATALOGUE)


def test_every_error_can_be_imported_from_the_package() -> None:
    assert {cls.__name__ for cls in error_classes(PyocoError)} <= set(problems.__all__)
