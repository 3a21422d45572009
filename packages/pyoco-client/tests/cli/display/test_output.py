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
    """A stdout for tests; `written()` returns the text so far."""

    def __init__(self, *, is_terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def written(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode(self.encoding)


Patch = pytest.MonkeyPatch


def terminal(patch: Patch) -> Stdout:
    """Replace stdout by a terminal; call it in the test body, after pytest has replaced stdout."""
    stdout = Stdout(is_terminal=True)
    patch.setattr(sys, "stdout", stdout)
    patch.setenv("TERM", "xterm")
    patch.setenv("COLUMNS", "80")
    patch.delenv("NO_COLOR", raising=False)
    return stdout


def pipe(patch: Patch, encoding: str = "utf-8") -> Stdout:
    """Replace stdout by a pipe."""
    stdout = Stdout(is_terminal=False, encoding=encoding)
    patch.setattr(sys, "stdout", stdout)
    return stdout


def test_a_terminal_gets_a_table_and_a_pipe_gets_json(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    assert stdout.written().startswith("ID  STATUS\n1   ")
    piped = pipe(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    assert json.loads(piped.written()) == RECORDS
    assert piped.written().count("\n") == 1


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
def test_records_are_printed_in_each_format(form: Form, text: str, monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    print_records(RECORDS, form, LAYOUT)
    assert stdout.written() == text


def test_json_prints_the_document_instead_of_the_records(monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    print_records(RECORDS, Form.JSON, LAYOUT, document={"items": RECORDS})
    assert json.loads(stdout.written()) == {"items": RECORDS}


def test_a_document_is_indented_on_a_terminal(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_data({"a": 1})
    assert stdout.written() == '{\n  "a": 1\n}\n'


def test_a_status_has_a_colour_only_on_a_terminal(monkeypatch: Patch) -> None:
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


def test_a_table_on_a_terminal_has_colours(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_records(RECORDS, None, LAYOUT)
    print_record(RECORDS[0], None, LAYOUT)
    assert stdout.written().count("\x1b[31mFAILED\x1b[0m") == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "shift_jis"])
def test_characters_that_stdout_cannot_encode_are_escaped(
    encoding: str, monkeypatch: Patch
) -> None:
    stdout = pipe(monkeypatch, encoding)
    print_records([{"id": "🎉", "status": "x"}], Form.TABLE, LAYOUT)
    print_records([{"id": "🎉", "status": "x"}], Form.JSON, LAYOUT)
    assert r"\U0001f389" in stdout.written()
    assert json.loads(stdout.written().splitlines()[-1])[0]["id"] == "🎉"


def test_control_characters_in_data_are_escaped(monkeypatch: Patch) -> None:
    stdout = terminal(monkeypatch)
    print_line("\x1b]0;owned\x07\u202etxt.exe\x9b31m")
    text = stdout.written()
    for character in "\x1b\x07\u202e\x9b":
        assert character not in text


def test_each_line_is_flushed(monkeypatch: Patch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w", buffering=8192) as stdout, os.fdopen(read_end) as reader:
        monkeypatch.setattr(sys, "stdout", stdout)
        print_line("at once")
        assert reader.readline() == "at once\n"


def test_the_format_name_prints_ids(monkeypatch: Patch) -> None:
    stdout = pipe(monkeypatch)
    record: dict[str, Any] = {"id": "a", "status": "FAILED"}
    print_record(record, Form.NAME, LAYOUT)
    print_record(record, Form.STATUS, LAYOUT)
    print_record(record, Form.JSONL, LAYOUT)
    print_record(record, Form.WIDE, LAYOUT)
    assert stdout.written() == (
        'a\nFAILED\ta\n{"id": "a", "status": "FAILED"}\nID      a\nSTATUS  FAILED\nMORE    more\n'
    )
