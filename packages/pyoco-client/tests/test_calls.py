from pathlib import Path

import pytest

from pyoco_client import calls
from pyoco_client.retry_rules import Repeat

TEXT = "flow:\n  graph: a\ntasks:\n  a: {callable: 'm:f'}\n"


def test_only_a_submission_with_a_key_may_be_repeated() -> None:
    without = calls.submission("hello", {}, None, None, None)
    assert without.repeat is Repeat.IF_UNSENT
    assert "X-Idempotency-Key" not in without.headers
    assert calls.submission("hello", {}, None, None, "k").repeat is Repeat.ALWAYS
    assert calls.yaml_submission(TEXT, "hello", None, None).repeat is Repeat.IF_UNSENT
    assert calls.yaml_submission(TEXT, "hello", None, "k").repeat is Repeat.ALWAYS


def test_requests_with_another_answer_the_second_time_are_not_repeated() -> None:
    once = [calls.redrive(1), calls.discard(1), calls.delete_run("r"), calls.redrive_all({})]
    assert {call.repeat for call in once} == {Repeat.IF_UNSENT}
    again = [
        calls.cancel("r", "why"),
        calls.worker_patch("w", hidden=True),
        calls.redrive_all({"dry_run": True}),
        calls.yaml_validation(TEXT),
    ]
    assert {call.repeat for call in again} == {Repeat.ALWAYS}


@pytest.mark.parametrize("key", ["", "x" * 256, "line\nbreak", "鍵"])
def test_an_idempotency_key_that_a_header_cannot_carry_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        calls.submission("hello", {}, None, None, key)


def test_a_workflow_can_be_bytes_text_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(TEXT, encoding="utf-8")
    for source in (TEXT, TEXT.encode(), path, str(path)):
        assert calls.workflow_bytes(source) == TEXT.encode()
    assert calls.workflow_bytes("flow: {graph: a}") == b"flow: {graph: a}"
    with pytest.raises(FileNotFoundError):
        calls.workflow_bytes(str(tmp_path / "absent.yaml"))


def test_a_query_holds_only_the_given_filters() -> None:
    call = calls.runs({"status": ["PENDING", "RUNNING"]}, limit=5, updated_after=1.5)
    assert call.query == (
        ("status", "PENDING"),
        ("status", "RUNNING"),
        ("updated_after", "1.5"),
        ("limit", "5"),
    )
    assert calls.workers(None, None, True, None).query == (("include_hidden", "true"),)


def test_an_unknown_filter_is_rejected_like_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stauts'"):
        calls.counts({"stauts": "FAILED"})  # type: ignore[typeddict-unknown-key] # the typing error under test
    with pytest.raises(TypeError, match="unexpected keyword argument 'submitted_after'"):
        calls.changes({"submitted_after": 1.0}, limit=1)  # type: ignore[typeddict-unknown-key] # only lists have it
