import io
import sys

import pytest

from pyoco_client.cli.arguments import BadArgumentError
from pyoco_client.cli.named_things import NotConfirmedError, make_sure, named


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def test_a_dash_stands_for_the_lines_of_stdin_and_each_name_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("b\n\n c \na\n"))
    assert named(["a", "-", "d", "b"]) == ["a", "b", "c", "d"]


def test_what_is_no_text_on_stdin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
    with pytest.raises(BadArgumentError, match="no text"):
        named(["-"])


def test_where_nobody_can_be_asked_yes_must_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(BadArgumentError, match="--yes"):
        make_sure("Really?", yes=False, example="x --yes")
    make_sure("Really?", yes=True, example="x --yes")


@pytest.mark.parametrize(
    ("answer", "goes_on"), [("y", True), ("YES", True), ("n", False), ("", False)]
)
def test_on_a_terminal_the_answer_counts(
    answer: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    if goes_on:
        make_sure("Really?", yes=False, example="")
    else:
        with pytest.raises(NotConfirmedError):
            make_sure("Really?", yes=False, example="")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Really? [y/N]" in printed.err
