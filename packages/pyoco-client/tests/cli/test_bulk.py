import io
import sys

import pytest

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.bulk import NotConfirmedError, confirm, ids_in, is_single


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_dash_stands_for_the_lines_of_stdin_and_each_id_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("b\n\n c \na\n"))
    assert ids_in(["a", "-", "d", "b"]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("words", "single"), [(["a"], True), (["-"], False), (["a", "b"], False), ([], False)]
)
def test_only_one_id_on_the_command_line_is_a_single_one(words: list[str], single: bool) -> None:
    assert is_single(words) is single


def test_stdin_that_is_not_text_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
    with pytest.raises(BadArgumentError, match="stdin is not text"):
        ids_in(["-"])


def test_without_a_terminal_yes_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(BadArgumentError, match="--yes"):
        confirm("Really?", yes=False, example="x --yes")
    confirm("Really?", yes=True, example="x --yes")


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y", True), ("YES", True), ("n", False), ("", False)]
)
def test_on_a_terminal_the_answer_of_the_user_decides(
    answer: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    if goes_on:
        confirm("Really?", yes=False, example="")
    else:
        with pytest.raises(NotConfirmedError):
            confirm("Really?", yes=False, example="")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Really? [y/N]" in printed.err
