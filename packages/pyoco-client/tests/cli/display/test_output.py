import io
import json
import os
import sys
from typing import Any

import pytest

from pyoco_client.cli.display.output import (
    Form,
    Layout,
    print_data,
    print_line,
    print_record,
    print_records,
    status_word,
)
from pyoco_client.cli.display.tables import Column

COLUMNS = (
    Column("ID", lambda record: str(record["id"])),
    Column("STATUS", lambda record: str(record["status"])),
)
LAYOUT = Layout("id", COLUMNS, (*COLUMNS, Column("MORE", lambda _: "more")))
RECORDS = [{"id": 1, "status": "FAILED"}, {"id": 2, "status": "完了"}]


class Stdout(io.TextIOWrapper):
    """Stdout as a test wants it; `told` is what has been written."""

    def __init__(self, *, is_terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def told(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


Patch = pytest.MonkeyPatch


def terminal(patch: Patch) -> Stdout:
    """Let stdout be a terminal; for a test's own body, since pytest has one before it."""
    stdout = Stdout(is_terminal=True)
    patch.setattr(sys, "stdout", stdout)
    patch.setenv("TERM", "xterm")
    patch.setenv("COLUMNS", "80")
    patch.delenv("NO_COLOR", raising=False)
    return stdout


def pipe(patch: Patch, encoding: str = "utf-8") -> Stdout:
    """Let stdout be a pipe."""
    stdout = Stdout(is_terminal=False, encoding=encoding)
    patch.setattr(sys, "stdout", stdout)
    return stdout


def test_people_get_a_table_and_programs_a_document(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    assert stdout.told().startswith("ID  STATUS\n1   ")
    piped = pipe(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    assert json.loads(piped.told()) == RECORDS
    assert piped.told().count("\n") == 1


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form.TABLE, "ID  STATUS\n1   FAILED\n2   完了\n"),
        (Form.WIDE, "ID  STATUS  MORE\n1   FAILED  more\n2   完了    more\n"),
        (Form.JSON, '[{"id": 1, "status": "FAILED"}, {"id": 2, "status": "完了"}]\n'),
        (Form.JSONL, '{"id": 1, "status": "FAILED"}\n{"id": 2, "status": "完了"}\n'),
        (Form.NAME, "1\n2\n"),
    ],
)
def test_each_form_of_many_records(form: Form, text: str, monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    print_records(RECORDS, form, LAYOUT)
    assert stdout.told() == text


def test_a_document_of_its_own_is_printed_whole(monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    print_records(RECORDS, Form.JSON, LAYOUT, document={"items": RECORDS})
    assert json.loads(stdout.told()) == {"items": RECORDS}


def test_a_document_is_indented_for_people(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_data({"a": 1})
    assert stdout.told() == '{\n  "a": 1\n}\n'


def test_a_status_has_a_colour_on_a_terminal_and_nowhere_else(monkeypatch: Patch) -> None:
    terminal(monkeypatch)
    assert status_word("FAILED") == "\x1b[31mFAILED\x1b[0m"
    assert status_word("SOMETHING_NEWER") == "SOMETHING_NEWER"
    monkeypatch.setenv("NO_COLOR", "1")
    assert status_word("FAILED") == "FAILED"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert status_word("FAILED") == "FAILED"
    monkeypatch.setenv("TERM", "xterm")
    pipe(monkeypatch)
    assert status_word("FAILED") == "FAILED"


def test_colours_reach_the_table_of_a_terminal(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    print_record(RECORDS[0], None, LAYOUT)
    assert stdout.told().count("\x1b[31mFAILED\x1b[0m") == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "shift_jis"])
def test_what_stdout_cannot_show_is_escaped(encoding: str, monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch, encoding)
    print_records([{"id": "🎉", "status": "x"}], Form.TABLE, LAYOUT)
    print_records([{"id": "🎉", "status": "x"}], Form.JSON, LAYOUT)
    assert r"\U0001f389" in stdout.told()
    assert json.loads(stdout.told().splitlines()[-1])[0]["id"] == "🎉"


def test_a_line_of_data_cannot_steer_the_terminal(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_line("\x1b]0;owned\x07\u202etxt.exe\x9b31m")
    told = stdout.told()
    for character in "\x1b\x07\u202e\x9b":
        assert character not in told


def test_a_line_is_there_before_the_next_one_comes(monkeypatch: Patch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w", buffering=8192) as stdout, os.fdopen(read_end) as reader:
        monkeypatch.setattr(sys, "stdout", stdout)
        print_line("at once")
        assert reader.readline() == "at once\n"


def test_the_name_of_anything_is_its_id(monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    record: dict[str, Any] = {"id": "a", "status": "FAILED"}
    print_record(record, Form.NAME, LAYOUT)
    print_record(record, Form.STATUS, LAYOUT)
    print_record(record, Form.JSONL, LAYOUT)
    print_record(record, Form.WIDE, LAYOUT)
    assert stdout.told() == (
        'a\nFAILED\ta\n{"id": "a", "status": "FAILED"}\nID      a\nSTATUS  FAILED\nMORE    more\n'
    )
