from pathlib import Path

import pytest

from pyoco_client import calls
from pyoco_client.retrying import Repeat

TEXT = "flow:\n  graph: a\ntasks:\n  a: {callable: 'm:f'}\n"


def test_only_a_submission_with_a_key_may_be_sent_twice() -> None:
    without = calls.submission("hello", {}, None, None, None)
    assert without.repeat is Repeat.IF_UNSENT
    assert "X-Idempotency-Key" not in without.headers
    assert calls.submission("hello", {}, None, None, "k").repeat is Repeat.ALWAYS
    assert calls.yaml_submission(TEXT, "hello", None, None).repeat is Repeat.IF_UNSENT
    assert calls.yaml_submission(TEXT, "hello", None, "k").repeat is Repeat.ALWAYS


def test_what_would_be_answered_otherwise_the_second_time_is_not_repeated() -> None:
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
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        calls.submission("hello", {}, None, None, key)


def test_a_workflow_is_given_as_bytes_text_or_path(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(TEXT, encoding="utf-8")
    for source in (TEXT, TEXT.encode(), path, str(path)):
        assert calls.workflow_bytes(source) == TEXT.encode()
    assert calls.workflow_bytes("flow: {graph: a}") == b"flow: {graph: a}"
    with pytest.raises(FileNotFoundError):
        calls.workflow_bytes(str(tmp_path / "absent.yaml"))


def test_a_query_holds_what_was_given_and_no_more() -> None:
    call = calls.runs(status=["PENDING", "RUNNING"], limit=5, updated_after=1.5)
    assert call.query == (
        ("status", "PENDING"),
        ("status", "RUNNING"),
        ("updated_after", "1.5"),
        ("limit", "5"),
    )
    assert calls.workers(None, None, True, None).query == (("include_hidden", "true"),)
