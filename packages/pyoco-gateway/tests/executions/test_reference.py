"""The pages about executions say what the code says, and the graphs on them are valid."""

import ast
import re
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, TypeAdapter

import pyoco_protocol.graphs
from executions.field_texts import GRAPH_PARTS, FieldText, field_texts, schema_text
from pyoco_gateway.app import create_app
from pyoco_gateway.executions import command_body
from pyoco_gateway.executions.core import limits
from pyoco_gateway.executions.log.logged_state import MAX_KEYS
from pyoco_gateway.graphs import graph_warnings
from pyoco_gateway.settings import gateway_settings
from pyoco_protocol.executions import actors, events, statuses
from pyoco_protocol.executions.commands import COMMAND_CLASSES, ReportedError
from pyoco_protocol.executions.events import EVENT_CLASSES
from pyoco_protocol.executions.rejections import Rejection
from pyoco_protocol.graphs import document, node_rules, validation, weight
from pyoco_protocol.graphs.parsing import parse_yaml
from pyoco_protocol.graphs.problems import GraphProblem
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_protocol.http import executions as bodies
from pyoco_protocol.http import graphs as graph_bodies
from pyoco_testkit.documents import tables_in
from served_routes import requirements

DOCS: Final = Path(__file__).parents[4] / "docs"
GUIDE: Final = DOCS / "executions.md"
TABLES: Final = tables_in(DOCS / "executions-reference.md")
REQUIRED: Final = requirements()

SHARED: Final = (events.ErrorInfo, events.LateResult, events.CompletedResult, actors.Actor)
VALUES: Final[tuple[type[StrEnum], ...]] = (
    statuses.ExecutionStatus,
    statuses.NodeStatus,
    statuses.CancelReason,
    statuses.FailReason,
    statuses.LateOutcome,
    document.NodeType,
)
ANSWERS: Final[tuple[type[BaseModel], ...]] = (
    bodies.CommandAnswer,
    bodies.ExecutionView,
    bodies.NodeView,
    bodies.ProgressView,
    bodies.ApprovalsView,
    bodies.ExecutionPage,
    bodies.ExecutionItem,
    bodies.OpenNodePage,
    bodies.OpenNodeItem,
    bodies.EventPage,
    bodies.EventEnvelope,
    bodies.LogVerification,
    graph_bodies.GraphStored,
    graph_bodies.GraphValidation,
    graph_bodies.GraphPage,
    graph_bodies.GraphItem,
    GraphProblem,
)
# Fields that all nodes have; the page describes them once.
NODE_FIELDS: Final = ("id", "title", "type")


def routes() -> dict[str, dict[str, Any]]:
    """Return the OpenAPI description of each route of executions and graphs."""
    app: Any = create_app(gateway_settings({"PYOCO_LOAD_DOTENV": "0"}))
    while not hasattr(app, "openapi"):
        app = app._app
    return {
        f"{method.upper()} {path}": operation
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
        if re.match("/(executions|graphs|waits|ready-tasks)", path)
    }


ROUTES: Final = routes()
COMMAND_ROUTES: Final = {
    route: operation for route, operation in ROUTES.items() if route.startswith("POST /executions")
}


def required_for(route: str) -> str:
    method, _, path = route.partition(" ")
    return str(REQUIRED[method, path])


def rows_of(heading: str, *columns: str) -> list[tuple[str, ...]]:
    """Return columns of the table under a heading, if there is one; all rows have a meaning."""
    rows = TABLES.get(heading, [])
    assert all(row["meaning"] for row in rows)
    return [tuple(row[column].strip("`") for column in columns) for row in rows]


def with_defaults(fields: list[FieldText]) -> list[tuple[str, ...]]:
    return [(each.name, each.type.strip("`"), each.default_text) for each in fields]


def with_presence(fields: list[FieldText]) -> list[tuple[str, ...]]:
    return [(each.name, each.type.strip("`"), each.presence) for each in fields]


def test_the_page_lists_all_commands_with_their_routes_and_scopes() -> None:
    described = {"–": ("–", "–")}
    for route, operation in COMMAND_ROUTES.items():
        name = operation["operationId"].removeprefix("post_").title().replace("_", "")
        described["CreateExecution" if name == "Execution" else name] = (route, required_for(route))
    assert [(row["command"], row["request"], row["key"]) for row in TABLES["Commands"]] == [
        (name, *described.get(name, described["–"])) for name in COMMAND_CLASSES
    ]
    emitted = [re.findall(r"\w+", row["emits"]) for row in TABLES["Commands"]]
    assert all(emitted)
    assert {kind for kinds in emitted for kind in kinds} <= EVENT_CLASSES.keys()


@pytest.mark.parametrize("model", [*COMMAND_CLASSES.values(), ReportedError])
def test_the_page_lists_the_fields_of_each_command(model: type[BaseModel]) -> None:
    prefix = "error." if model is ReportedError else ""
    sizes = {**command_body._MAX_BYTES, "error.detail": command_body._MAX_DETAIL_BYTES}
    expected = [
        (name, f"object, ≤ {sizes[prefix + name]:,} bytes" if kind == "object" else kind, default)
        for name, kind, default in with_defaults([*field_texts(model, "name", "nodeId")])
    ]
    assert rows_of(model.__name__, "field", "type", "default") == expected


def test_the_page_lists_all_rejections_in_the_order_of_their_checks() -> None:
    assert [row["reason"] for row in TABLES["Rejections"]] == list(Rejection)
    for row in TABLES["Rejections"]:
        assert row["when"]
        assert set(re.findall(r"`(\w+)`", f"`{row['commands']}`")) <= COMMAND_CLASSES.keys()


def test_the_page_lists_all_events() -> None:
    assert [name for name, _ in rows_of("Events", "event", "from")] == list(EVENT_CLASSES)


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_the_page_lists_the_payload_of_each_event(kind: str) -> None:
    expected = with_presence([*field_texts(EVENT_CLASSES[kind], "type")])
    assert rows_of(kind, "field", "type", "always") == expected


@pytest.mark.parametrize("model", [*SHARED, *ANSWERS])
def test_the_page_lists_the_fields_of_each_answer(model: type[BaseModel]) -> None:
    expected = with_presence([*field_texts(model)])
    assert rows_of(model.__name__, "field", "type", "always") == expected


def test_a_version_of_a_graph_has_the_fields_of_an_item_and_its_document() -> None:
    inherited = graph_bodies.GraphItem.model_fields
    expected = with_presence([*field_texts(graph_bodies.GraphVersionView, *inherited, "graphId")])
    assert rows_of("GraphVersionView", "field", "type", "always") == expected


@pytest.mark.parametrize("values", VALUES)
def test_the_page_lists_the_values_of_each_enum(values: type[StrEnum]) -> None:
    assert [row["value"] for row in TABLES[values.__name__]] == list(values)


@pytest.mark.parametrize("heading", GRAPH_PARTS)
def test_the_page_lists_the_fields_of_each_part_of_a_graph(heading: str) -> None:
    expected = with_defaults([*field_texts(GRAPH_PARTS[heading])])
    assert rows_of(heading, "field", "type", "default") == expected


@pytest.mark.parametrize("name", document.NODE_CLASSES)
def test_the_page_lists_the_fields_of_each_type_of_node(name: str) -> None:
    model = document.NODE_CLASSES[name]
    own = [*field_texts(model, *NODE_FIELDS)]
    assert rows_of(name, "field", "type", "default") == with_defaults(own)
    (fields,) = (row["fields"] for row in TABLES["NodeType"] if row["value"] == name)
    assert re.findall(r"`(\w+)`", fields) == [each.name for each in own]
    shared = [name for name, _ in rows_of("Node", "field", "type")]
    assert [each.name for each in field_texts(model) if each not in own] == shared


def literals_in(path: Path) -> set[str]:
    """Return the texts in a source file that look like codes."""
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[A-Z]{2,}(_[A-Z]+)*", node.value)
    }


def test_the_page_lists_all_problems_of_a_graph() -> None:
    (folder,) = map(Path, pyoco_protocol.graphs.__path__)
    codes = set[str]().union(*map(literals_in, folder.glob("*.py"))) - {*document.JoinPolicy}
    assert {row["code"] for row in TABLES["Problems of a graph"]} == codes


def test_the_page_lists_all_warnings_about_a_graph() -> None:
    codes = literals_in(Path(graph_warnings.__file__))
    assert {row["code"] for row in TABLES["Warnings about a graph"]} == codes


def test_the_page_lists_all_other_routes_with_their_scopes() -> None:
    assert {row["route"]: row["key"] for row in TABLES["Routes"]} == {
        route: required_for(route) for route in ROUTES.keys() - COMMAND_ROUTES.keys()
    }


@pytest.mark.parametrize("route", sorted(ROUTES.keys() - COMMAND_ROUTES.keys()))
def test_the_page_lists_the_parameters_of_each_route(route: str) -> None:
    given = [each for each in ROUTES[route].get("parameters", ()) if each["in"] != "path"]
    expected = [
        (each["name"], parameter_type(each["schema"]), str(each["schema"].get("default", "–")))
        for each in given
    ]
    assert rows_of(route, "parameter", "type", "default") == expected


def parameter_type(schema: dict[str, Any]) -> str:
    if schema["type"] != "array":
        return schema_text(schema).strip("`")
    items = schema["items"]
    is_event = items.get("enum") == [*EVENT_CLASSES]
    return f"{'type of event' if is_event else schema_text(items)}, repeatable".strip("`")


def test_the_guide_names_the_limits() -> None:
    rows = tables_in(GUIDE)["Limits"]
    shown = {int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", str(rows))}
    assert shown >= {
        *command_body._MAX_BYTES.values(),
        command_body._MAX_DETAIL_BYTES,
        command_body.MAX_BODY_BYTES,
        validation.MAX_NODES,
        validation.MAX_EDGES,
        weight.MAX_DOCUMENT_BYTES,
        limits.MAX_EVENTS,
        limits.MAX_PROGRESS_SEQ,
        limits.MAX_PROGRESS_PER_ATTEMPT,
        limits.MAX_RESUME_REQUESTS,
    }
    assert f"its last {MAX_KEYS:,} commands" in GUIDE.read_text(encoding="utf-8")


def test_the_page_names_the_limits_of_params_prompts_and_commits() -> None:
    params = next(row for row in TABLES["Task: run"] if row["field"] == "params")
    prompt = next(row for row in TABLES["Wait: wait"] if row["field"] == "prompt")
    heavy = next(row for row in TABLES["Problems of a graph"] if row["code"] == "GRAPH_TOO_HEAVY")
    assert f"{node_rules.MAX_PARAMS_BYTES:,} bytes" in params["meaning"]
    assert f"{node_rules.MAX_PROMPT_BYTES:,} bytes" in prompt["meaning"]
    assert f"{weight.MAX_WEIGHT:,} bytes" in heavy["when"]


def yaml_blocks() -> list[Any]:
    pages = [*DOCS.glob("executions*.md")]
    texts = (
        re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S) for page in pages
    )
    return [parse_yaml(text.encode()) for found in texts for text in found]


def test_all_graphs_on_the_pages_are_valid() -> None:
    blocks = yaml_blocks()
    graphs = [block for block in blocks if isinstance(block, dict)]
    assert graphs
    for graph in graphs:
        validate_graph(graph)
    for part in (part for block in blocks if isinstance(block, list) for part in block):
        model = document.Edge if "from" in part else document.NODE_CLASSES[part["type"]]
        TypeAdapter[Any](model).validate_python(part)
