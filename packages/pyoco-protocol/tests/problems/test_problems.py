import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol import problems
from pyoco_protocol.problems import (
    CATALOGUE,
    ApiKeyInvalidError,
    ApiKeyMissingError,
    ApiKeyNotFoundError,
    ApiKeyUnchangeableError,
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
    CliUsageError,
    ContentEncodingError,
    DeadLetterNotFoundError,
    DlqPublishError,
    EmbeddedBrokerError,
    ExecutionFailedError,
    FlowNotFoundError,
    ForeignOriginError,
    GatewayUnreachableError,
    HeadersTooLargeError,
    HostNotAllowedError,
    HostUnclearError,
    IdempotencyKeyReusedError,
    InProgressError,
    InternalError,
    InvalidJobError,
    InvalidRequestError,
    JobSignatureError,
    Language,
    ListNotReadyError,
    ListQueryError,
    LoggingSetupError,
    MethodNotAllowedError,
    NotRedrivableError,
    OrphanRunError,
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
    SettingProblem,
    SettingsError,
    SlowRequestError,
    SnapshotTooLargeError,
    SnapshotUnreadableError,
    SubmitOutcomeUnknownError,
    TerminalWriteError,
    TooManyRequestsError,
    UnsupportedContentTypeError,
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
    language_from_accept,
)

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
PUBLISHED = [f"{number:04}" for number in range(1, 25)]
ADDED = [f"{number:04}" for number in (*range(101, 121), 123, 125, 130, *range(133, 144))]
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")

# The message table of the published specification, word for word.
PUBLISHED_JA = {
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
    "0133",
    "0134",
    "0136",
}

# One of each error, with its number and its status.
FAULTS = [("params.n", "must be a number"), ("tag", "must not hold a dot")]
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
    (JobSignatureError("is missing"), "0141", 422),
    (RouteNotFoundError("/nope"), "0110", 404),
    (MethodNotAllowedError("PUT", "/runs"), "0111", 405),
    (EmbeddedBrokerError("not up in 10 s"), "0112", 500),
    (PortBusyError(4222, "--nats-port"), "0112", 500),
    (BrokerLockHeldError("/var/lib/nats", 42), "0112", 500),
    (ChildDiedError(RUN, "signal 11"), "0113", 500),
    (RunTimedOutError(RUN, 60), "0114", 500),
    (SnapshotUnreadableError(RUN), "0115", 500),
    (AttemptsExhaustedError(RUN, 20), "0116", 500),
    (WorkerIdTakenError("w1", "life"), "0117", 500),
    (ListNotReadyError(2), "0123", 503),
    (WorkerIdTakenError("gpu-1", "4f0e9a51"), "0117", 500),
]


MORE_FOR_THE_LOG = {BrokerPermissionError, BrokerLoginError}


def leaves(cls: type[PyocoError]) -> Iterator[type[PyocoError]]:
    if cls.__module__.startswith("pyoco_protocol.problems"):
        below = [c for c in cls.__subclasses__() if c.__module__.startswith(problems.__name__)]
        # One that stands for itself, or for several beside itself.
        if not below or "entry" in vars(cls):
            yield cls
        for subclass in below:
            yield from leaves(subclass)


def name_of(value: object) -> str:
    return type(value).__name__ if isinstance(value, PyocoError) else ""


def test_the_catalogue_holds_every_published_id_and_the_additions() -> None:
    assert list(CATALOGUE) == [f"ERR-PYOCO-{number}" for number in (*PUBLISHED, *ADDED)]


@pytest.mark.parametrize("err_id", CATALOGUE)
def test_an_entry_is_found_under_its_own_id_and_pairs_with_its_message(err_id: str) -> None:
    entry = CATALOGUE[err_id]
    assert entry.err_id == err_id
    assert entry.msg_id == err_id.replace("ERR", "MSG")


@pytest.mark.parametrize("err_id", CATALOGUE)
def test_an_entry_speaks_both_languages(err_id: str) -> None:
    entry = CATALOGUE[err_id]
    for texts in (entry.message, entry.hint):
        assert set(texts) == set(get_args(Language))
        assert all(text == text.strip() != "" for text in texts.values())
        assert JAPANESE.search(texts["ja"])
        assert not JAPANESE.search(texts["en"])


def test_no_two_entries_say_the_same() -> None:
    for language in get_args(Language):
        messages = [entry.message[language] for entry in CATALOGUE.values()]
        assert len(set(messages)) == len(messages)


def test_published_messages_are_those_of_the_specification() -> None:
    ours = {number: CATALOGUE[f"ERR-PYOCO-{number}"].message["ja"] for number in PUBLISHED}
    assert ours == PUBLISHED_JA


def test_what_cannot_be_retried_says_so() -> None:
    ours = {err_id[-4:] for err_id, entry in CATALOGUE.items() if not entry.retryable}
    assert ours == NOT_RETRYABLE


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
    if type(error) not in MORE_FOR_THE_LOG:
        assert str(error) == error.detail


@pytest.mark.parametrize(
    "error", [error for error, _, _ in EXAMPLES if type(error) in MORE_FOR_THE_LOG], ids=name_of
)
def test_who_we_are_at_the_broker_is_for_the_log_alone(error: PyocoError) -> None:
    assert "somebody" in str(error)
    assert "somebody" not in Problem.of(error).model_dump_json()


def test_every_error_there_is_was_looked_at_here() -> None:
    assert {type(error) for error, _, _ in EXAMPLES} == set(leaves(PyocoError))


def test_every_entry_has_an_error() -> None:
    assert {error.entry.err_id for error, _, _ in EXAMPLES} == set(CATALOGUE)


def test_every_error_can_be_imported_from_the_package() -> None:
    assert {cls.__name__ for cls in leaves(PyocoError)} <= set(problems.__all__)


def test_a_body_has_the_ids_the_words_and_the_request() -> None:
    body = Problem.of(RunNotFoundError(RUN), request_id="r-1").model_dump(mode="json")
    assert body == {
        "detail": f"run {RUN} not found",
        "err_id": "ERR-PYOCO-0005",
        "msg_id": "MSG-PYOCO-0005",
        "message": "The run was not found",
        "hint": "Check the run id. A run disappears when its retention time is over.",
        "request_id": "r-1",
    }


def test_a_body_speaks_the_language_asked_for() -> None:
    problem = Problem.of(RunNotFoundError(RUN), language="ja")
    assert problem.message == "runが見つかりません"
    assert JAPANESE.search(problem.hint)


def test_an_unknown_outcome_hands_over_the_run_id() -> None:
    body = Problem.of(SubmitOutcomeUnknownError(RUN)).model_dump(mode="json")
    assert body["run_id"] == RUN
    assert "do not resubmit" in body["hint"]


def test_all_faults_of_a_request_are_told_at_once() -> None:
    body = Problem.of(InvalidRequestError(FAULTS)).model_dump(mode="json")
    assert body["detail"] == "params.n: must be a number; tag: must not hold a dot"
    assert body["problems"] == [{"where": where, "what": what} for where, what in FAULTS]


def test_what_is_not_known_is_left_out_of_the_body() -> None:
    body = Problem.of(BodyTooLargeError(10)).model_dump(mode="json")
    assert body["max_bytes"] == 10
    assert "size_bytes" not in body


def test_an_error_may_have_a_hint_of_its_own() -> None:
    error = ApiKeyMissingError("X-Company-Key")
    for language in get_args(Language):
        assert "X-Company-Key" in error.hint(language)


def test_an_extra_never_replaces_a_field_of_the_body() -> None:
    class OddError(PyocoError):
        entry = CATALOGUE["ERR-PYOCO-0106"]

    problem = Problem.of(OddError("what happened", extra={"detail": "other", "err_id": "other"}))
    assert (problem.detail, problem.err_id) == ("what happened", "ERR-PYOCO-0106")


def test_a_body_from_a_newer_gateway_can_be_read() -> None:
    sent = {**Problem.of(RunNotFoundError(RUN)).model_dump(mode="json"), "new": [1, 2]}
    read = Problem.model_validate_json(json.dumps(sent))
    assert read.model_dump(mode="json") == sent


@given(where=st.text(st.characters()), what=st.text(st.characters()))
def test_a_body_can_always_be_sent(where: str, what: str) -> None:
    problem = Problem.of(InvalidRequestError([(where, what)]))
    sent = json.dumps(problem.model_dump(mode="json"), ensure_ascii=False).encode()
    assert json.loads(sent)["err_id"] == "ERR-PYOCO-0002"


def test_half_a_character_from_a_caller_is_answered_as_an_escape() -> None:
    body = Problem.of(InvalidRequestError([("a\ud800", "unknown")])).model_dump(mode="json")
    assert body["detail"] == r"a\ud800: unknown"
    assert body["problems"] == [{"where": r"a\ud800", "what": "unknown"}]


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("ja", "ja"),
        ("JA-jp", "ja"),
        ("ja-JP,ja;q=0.9,en;q=0.8", "ja"),
        ("en-US,en;q=0.9,ja;q=0.8", "en"),
        ("en;q=0.5, ja ; q=0.7", "ja"),
        ("ja,en", "ja"),
        ("en,ja", "en"),
        ("fr,de;q=0.9", "en"),
        ("fr, ja;q=0.1", "ja"),
        ("*", "en"),
        ("ja, *", "ja"),
        ("*, ja;q=0.5", "en"),
        ("ja;q=0", "en"),
        ("ja;q=0, *", "en"),
        ("en;q=0, *", "ja"),
        ("en;q=0", "ja"),
        ("*;q=0", "en"),
        ("ja;q=nan, en;q=0.1", "en"),
        ("ja;q=9, en;q=0.1", "en"),
        ("ja;q=", "en"),
        ("jam", "en"),
        (";;,,;q=1,", "en"),
    ],
)
def test_the_language_is_the_one_most_wanted(header: str | None, language: Language) -> None:
    assert language_from_accept(header) == language


@given(st.text())
def test_any_header_gives_a_language(header: str) -> None:
    assert language_from_accept(header) in get_args(Language)
