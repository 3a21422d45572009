import json
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.problems import (
    CATALOGUE,
    ApiKeyMissingError,
    BodyTooLargeError,
    InvalidRequestError,
    Language,
    Problem,
    PyocoError,
    RunNotFoundError,
    SubmitOutcomeUnknownError,
    language_from_accept,
)

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
FAULTS = [("params.n", "must be a number"), ("tag", "must not contain a dot")]
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def test_a_body_has_ids_texts_and_the_request_id() -> None:
    body = Problem.of(RunNotFoundError(RUN), request_id="r-1").model_dump(mode="json")
    assert body == {
        "detail": f"run {RUN} not found",
        "err_id": "ERR-PYOCO-0005",
        "msg_id": "MSG-PYOCO-0005",
        "message": "The run was not found",
        "hint": "Check the run id. A run is deleted after its retention time.",
        "request_id": "r-1",
    }


def test_a_body_has_its_texts_in_the_requested_language() -> None:
    problem = Problem.of(RunNotFoundError(RUN), language="ja")
    assert problem.message == "runが見つかりません"
    assert JAPANESE.search(problem.hint)


def test_the_body_of_an_unknown_outcome_has_the_run_id() -> None:
    body = Problem.of(SubmitOutcomeUnknownError(RUN)).model_dump(mode="json")
    assert body["run_id"] == RUN
    assert "before you submit it again" in body["hint"]


def test_a_body_lists_all_faults_of_a_request() -> None:
    body = Problem.of(InvalidRequestError(FAULTS)).model_dump(mode="json")
    assert body["detail"] == "params.n: must be a number; tag: must not contain a dot"
    assert body["problems"] == [{"where": where, "what": what} for where, what in FAULTS]


def test_an_unknown_value_is_left_out_of_the_body() -> None:
    body = Problem.of(BodyTooLargeError(10)).model_dump(mode="json")
    assert body["max_bytes"] == 10
    assert "size_bytes" not in body


def test_an_error_can_replace_the_hint_of_its_entry() -> None:
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
def test_a_body_can_always_be_encoded(where: str, what: str) -> None:
    problem = Problem.of(InvalidRequestError([(where, what)]))
    sent = json.dumps(problem.model_dump(mode="json"), ensure_ascii=False).encode()
    assert json.loads(sent)["err_id"] == "ERR-PYOCO-0002"


def test_a_lone_surrogate_is_escaped_in_the_body() -> None:
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
def test_the_preferred_supported_language_is_chosen(header: str | None, language: Language) -> None:
    assert language_from_accept(header) == language


@given(st.text())
def test_any_header_text_gives_a_supported_language(header: str) -> None:
    assert language_from_accept(header) in get_args(Language)
