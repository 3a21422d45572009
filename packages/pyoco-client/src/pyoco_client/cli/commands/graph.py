"""The commands `graph put`, `graph validate`, `graph list` and `graph show`."""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from pyoco_client.cli.arguments import (
    BadArgumentError,
    cannot_read,
    checked_path_part,
    graph_id_argument,
)
from pyoco_client.cli.connection import EXIT_FAILED, EXIT_OK, Connection, pass_connection
from pyoco_client.cli.display.execution_layouts import GRAPH, GRAPHS, STORED
from pyoco_client.cli.display.output import (
    Form,
    chosen,
    data_output,
    fault_line,
    print_data,
    print_json_line,
    print_line,
    print_note,
    print_record,
    print_records,
)
from pyoco_client.cli.examples import examples
from pyoco_client.cli.lazy_group import HelpfulGroup
from pyoco_client.execution_errors import GraphInvalidError

_STDIN: Final = "-"
_FILE: Final = click.argument("file", type=click.Path(path_type=Path))


@click.group(
    cls=HelpfulGroup,
    no_args_is_help=False,
    epilog=examples("pyoco-client graph put order-intake.yaml"),
)
def graph() -> None:
    """Store, validate and list graphs.

    A graph is a document in YAML or JSON. Each change makes a new version; executions continue with
    the version that they were created with.
    """


@graph.command(
    epilog=examples(
        "pyoco-client graph put order-intake.yaml",
        "pyoco-client graph put order-intake.yaml --graph-id order-intake-test",
    )
)
@_FILE
@click.option("--graph-id", help="Id of the graph.  [default: the name of the file]")
@click.option(
    "--if-match",
    type=click.IntRange(0),
    metavar="VERSION",
    help="Store it only if this is the latest version; 0: only a new graph.",
)
@data_output
@pass_connection
def put(
    connection: Connection,
    file: Path,
    graph_id: str | None,
    if_match: int | None,
    form: Form | None,
) -> int:
    """Store a graph as its next version.

    FILE has YAML or JSON; - is stdin. The same document makes no new version.
    """
    if graph_id is None and str(file) == _STDIN:
        raise BadArgumentError(
            "stdin has no name: give the graph id by --graph-id",
            "pyoco-client graph put - --graph-id order-intake",
        )
    name = _id_of(file) if graph_id is None else checked_path_part(graph_id)
    content = _content(file)
    with connection.open() as client:
        try:
            stored = client.graphs.put(name, content, if_match=if_match)
        except GraphInvalidError as error:
            # The gateway does not tell lines: JSON and YAML have the same problems.
            error.details["problems"] = _with_lines(error.problems, content)
            raise
    print_record(stored.as_dict(), form, STORED)
    _print_warnings(stored.as_dict().get("warnings", ()), content)
    if not stored.is_new:
        print_note(f"version {stored.version} has the same document")
    return EXIT_OK


@graph.command(
    epilog=examples(
        "pyoco-client graph validate order-intake.yaml",
        "pyoco-client graph validate order-intake.yaml --output json",
    )
)
@_FILE
@data_output
@pass_connection
def validate(connection: Connection, file: Path, form: Form | None) -> int:
    """Print all problems of a graph with their places.

    FILE has YAML or JSON; - is stdin. Nothing is stored. The exit code is 1 if there is a problem.
    """
    content = _content(file)
    with connection.open() as client:
        found = client.graphs.validate(content)
    report = found.as_dict()
    if (form := chosen(form)) is Form.JSON:
        print_data(report)
    elif form is Form.JSONL:
        print_json_line(report)
    else:
        for problem in _with_lines(report["problems"], content):
            print_line(f"{problem['code']}: {fault_line(problem)}")
        _print_warnings(report["warnings"], content)
        if found.valid:
            print_line("valid")
    return EXIT_OK if found.valid else EXIT_FAILED


@graph.command(
    "list",
    epilog=examples("pyoco-client graph list", "pyoco-client graph list --graph-id order-intake"),
)
@click.option("--graph-id", help="List the versions of this graph, the latest one first.")
@data_output
@pass_connection
def list_graphs(connection: Connection, graph_id: str | None, form: Form | None) -> int:
    """List all graphs, or the versions of one."""
    with connection.open() as client:
        found = client.graphs.iter() if graph_id is None else client.graphs.versions(graph_id)
        print_records([item.as_dict() for item in found], form, GRAPHS)
    return EXIT_OK


@graph.command(
    epilog=examples(
        "pyoco-client graph show order-intake",
        "pyoco-client graph show order-intake --graph-version 1 --output json",
    )
)
@graph_id_argument
@click.option("--graph-version", type=click.IntRange(1), help="A version other than the latest.")
@data_output
@pass_connection
def show(
    connection: Connection, graph_id: str, graph_version: int | None, form: Form | None
) -> int:
    """Print a graph.

    --output json and wide include its document.
    """
    with connection.open() as client:
        found = client.graphs.get(graph_id, graph_version)
    print_record(found.as_dict(), form, GRAPH)
    return EXIT_OK


def _id_of(file: Path) -> str:
    from pyoco_protocol.graphs.document import GRAPH_ID_PATTERN

    if not re.fullmatch(GRAPH_ID_PATTERN, file.stem):
        raise BadArgumentError(
            f"the file name {file.name!r} gives no graph id: give one by --graph-id",
            "pyoco-client graph put 'my order.yaml' --graph-id order-intake",
        )
    return file.stem


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == _STDIN else file.read_bytes()
    except OSError as error:
        raise BadArgumentError(cannot_read(str(file), error)) from error


def _print_warnings(warnings: Iterable[Mapping[str, Any]], content: bytes) -> None:
    for warning in _with_lines(warnings, content):
        print_note(f"warning: {fault_line(warning)}")


def _with_lines(problems: Iterable[Mapping[str, Any]], content: bytes) -> list[Mapping[str, Any]]:
    """Return the problems with the `line` in the file, where it is known, in the order of lines."""
    from pyoco_client.cli.document_lines import lines_of

    lines = lines_of(content.decode(errors="replace"))
    placed: list[Mapping[str, Any]] = [
        {**each, "line": None if lines is None else lines.line_of(str(each.get("where")))}
        for each in problems
    ]
    return sorted(placed, key=lambda each: (each["line"] is None, each["line"]))
