"""Prints data to stdout and everything else to stderr."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pyoco_client.cli.display.safe_text import encodable, safe_text
from pyoco_client.cli.display.status_colours import STATE_COLOURS, STATUS_COLOURS
from pyoco_client.cli.language import Language
from pyoco_client.cli.terminal_environment import terminal_environment

if TYPE_CHECKING:
    from pyoco_client.cli.display.tables import Column
    from pyoco_client.errors import PyocoApiError, PyocoError
    from pyoco_client.execution_errors import CommandRejectedError
    from pyoco_protocol.problems import CatalogueEntry


_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class Form(StrEnum):
    """The output formats."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    NAME = "name"
    STATUS = "status"
    TEXT = "text"


ALL_FORMS: Final = (Form.TABLE, Form.WIDE, Form.JSON, Form.JSONL, Form.NAME)

_MEANINGS: Final = {
    Form.TABLE: "table for people",
    Form.WIDE: "table with more columns",
    Form.JSON: "JSON document",
    Form.JSONL: "one JSON document a line",
    Form.NAME: "ids alone",
    Form.STATUS: "line with id and status",
    Form.TEXT: "plain lines",
}


def output_option(*forms: Form, otherwise: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that adds `-o/--output`; `otherwise` describes the default."""
    meanings = ", ".join(f"{form} ({_MEANINGS[form]})" for form in forms)
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([form.value for form in forms]),
        callback=lambda _context, _parameter, value: Form(value) if value else None,
        help=f"Output format: {meanings}. Default: {otherwise}.",
    )


_OTHERWISE: Final = "table on a terminal, else json"
data_output: Final = output_option(*ALL_FORMS, otherwise=_OTHERWISE)
run_output: Final = output_option(*ALL_FORMS, Form.STATUS, otherwise=_OTHERWISE)


def chosen(form: Form | None) -> Form:
    """Return the chosen format, or the default: a table on a terminal, else JSON."""
    return form or (Form.TABLE if is_terminal() else Form.JSON)


@dataclass(frozen=True, slots=True)
class Layout:
    """The table layout of a kind of record: its id field, its columns, and those of `wide`."""

    name: str
    columns: "Sequence[Column]"
    wide: "Sequence[Column]"

    def columns_of(self, form: Form) -> "Sequence[Column]":
        """Return the columns of `table`, or of `wide`."""
        return self.wide if form is Form.WIDE else self.columns


def print_records(
    records: Sequence[Mapping[str, Any]],
    form: Form | None,
    layout: Layout,
    *,
    document: Any = None,
) -> None:
    """Print records; with `json` as an array, or as `document` if that is given."""
    form = chosen(form)
    if form is Form.JSON:
        print_data(list(records) if document is None else document)
    elif form is Form.JSONL:
        for record in records:
            print_json_line(record)
    elif form in (Form.NAME, Form.STATUS):
        for record in records:
            print_line(_short(record, form, layout))
    else:
        from pyoco_client.cli.display.tables import table

        width = None if form is Form.WIDE else terminal_width()
        lines = table(records, layout.columns_of(form), width=width, styled=_styled)
        print_styled(lines)


def print_record(record: Mapping[str, Any], form: Form | None, layout: Layout) -> None:
    """Print one record; as a table with one line for each field."""
    form = chosen(form)
    if form is Form.JSON:
        print_data(record)
    elif form is Form.JSONL:
        print_json_line(record)
    elif form in (Form.NAME, Form.STATUS):
        print_line(_short(record, form, layout))
    else:
        from pyoco_client.cli.display.tables import pairs

        print_styled(pairs(record, layout.columns_of(form), styled=_styled))


def _short(record: Mapping[str, Any], form: Form, layout: Layout) -> str:
    name = str(record[layout.name])
    return f"{record['status']}\t{name}" if form is Form.STATUS else name


def print_data(value: Any) -> None:
    """Print one JSON document: indented on a terminal, on one line elsewhere."""
    print_line(_json(value, indent=2 if is_terminal() else None))


def print_json_line(value: Any) -> None:
    """Print one JSON document on one line and flush it."""
    print_line(_json(value, indent=None))


def print_styled(lines: Iterable[str]) -> None:
    """Print lines that are already escaped and may contain colours."""
    for line in lines:
        click.echo(encodable(line, _encoding()))


def print_line(text: str) -> None:
    """Print a line of data and flush it."""
    click.echo(encodable(safe_text(text), _encoding()))


def print_note(text: str) -> None:
    """Print a message to stderr."""
    click.echo(safe_text(text), err=True)


def print_warnings(warnings: Iterable[Any] | None) -> None:
    """Print the warnings of the gateway."""
    for warning in warnings or ():
        print_note(f"warning: {warning}")


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def status_word(status: str, colours: Mapping[str, str] = STATUS_COLOURS) -> str:
    """Return a status in its colour, if stdout shows colours."""
    if not is_terminal():
        return status
    terminal = terminal_environment()
    colour = None if terminal.no_color or terminal.is_dumb else colours.get(status)
    return click.style(status, fg=colour) if colour else status


def print_problem(error: "PyocoError", language: Language = "en") -> None:
    """Print an error with the details of the gateway and a hint."""
    from pyoco_client.errors import GatewayUnreachableError, PyocoApiError

    if isinstance(error, GatewayUnreachableError):
        # The error comes from this client, and its text says only what happened.
        print_note(f"pyoco-client: {error.err_id}: {_own_entry(error).message[language]}")
        print_note(f"  {error.message}")
    else:
        print_note(f"pyoco-client: {error}")
    if isinstance(error, PyocoApiError):
        _print_details(error)
        if error.run_id:
            print_note(f"  run id: {error.run_id}")
        if error.retry_after_sec:
            print_note(f"  try again in {error.retry_after_sec:g} s")
    if (
        isinstance(error, GatewayUnreachableError)
        and error.may_have_arrived
        and not error.is_repeatable
    ):
        print_note("  The request may have arrived: check for the run before you submit again.")
    if hint := _hint(error, language):
        print_note(f"  hint: {hint}")
    if error.request_id:
        print_note(f"  request id: {error.request_id}")


def _print_details(error: "PyocoApiError") -> None:
    from pyoco_client.execution_errors import CommandRejectedError

    if isinstance(error, CommandRejectedError):
        print_note(f"  reason: {error.reason} ({_state_in(error)})")
    if faults := error.problems:
        for fault in faults:
            print_note(f"  {fault_line(fault)}")
    elif error.detail not in (None, error.message):
        print_note(f"  detail: {_in_words(error.detail)}")


def _state_in(error: "CommandRejectedError") -> str:
    node = "" if error.node_status is None else f", node {error.node_status}"
    return f"execution {error.execution_status}{node}, seq {error.seq}"


def fault_line(fault: Mapping[str, Any]) -> str:
    """Return a problem of a request in one line.

    A problem of a workflow file has a line; one of a body or query has only a place.
    """
    line = f"line {fault['line']}: " if fault.get("line") is not None else ""
    place = f"{fault['where']}: " if fault.get("where") else ""
    known = fault.get("what") or fault.get("message")
    return f"{line}{place}{known}" if known else _in_words(fault)


def _hint(error: "PyocoError", language: Language) -> str | None:
    if error.status is None and error.err_id is not None:
        # The error comes from this client. A gateway answers in the requested language itself.
        return _own_entry(error).hint[language]
    return error.hint


def _own_entry(error: "PyocoError") -> "CatalogueEntry":
    """Return the catalogue entry of an error that this client has found itself."""
    from pyoco_protocol.problems import CATALOGUE

    return CATALOGUE[str(error.err_id)]


def _in_words(detail: Any) -> str:
    return detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)


def _json(value: Any, indent: int | None) -> str:
    encoding = (_encoding() or "ascii").lower().replace("-", "")
    return json.dumps(value, ensure_ascii=encoding != "utf8", indent=indent)


def _encoding() -> str | None:
    return getattr(sys.stdout, "encoding", None)


def _styled(title: str, text: str) -> str:
    if title == "STATE":
        return status_word(text, STATE_COLOURS)
    return status_word(text) if title == "STATUS" else text
