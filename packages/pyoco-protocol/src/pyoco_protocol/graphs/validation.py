"""Validates graph documents; reports all problems at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, JsonValue, ValidationError

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.compiled import CompiledGraph, compiled
from pyoco_protocol.graphs.document import (
    NODE_CLASSES,
    DocumentModel,
    Edge,
    GraphDocument,
    InputSchema,
    Node,
    Seconds,
    Title,
)
from pyoco_protocol.graphs.fault_words import fault_words
from pyoco_protocol.graphs.node_rules import node_problems
from pyoco_protocol.graphs.problems import GraphInvalidError, GraphProblem, shown
from pyoco_protocol.graphs.reference_rules import reference_problems
from pyoco_protocol.graphs.shape_rules import shape_problems
from pyoco_protocol.graphs.texts import read_texts
from pyoco_protocol.graphs.weight import size_problems, weight_problems

MIN_NODES: Final = 2
MAX_NODES: Final = 1_000
MIN_EDGES: Final = 1
MAX_EDGES: Final = 2_000
MAX_DEPTH: Final = 64
_CODES: Final = {"extra_forbidden": "FIELD_UNKNOWN", "missing": "FIELD_MISSING"}


class _Header(DocumentModel):
    """The fields of a document beside nodes and edges."""

    title: Title | None = None
    deadline_sec: Seconds | None = None
    input_schema: InputSchema | None = None


def validate_graph(source: JsonValue) -> CompiledGraph:
    """Return the graph of a document; raise GraphInvalidError with all problems."""
    if not isinstance(source, dict):
        raise GraphInvalidError([_problem("FIELD_INVALID", "document", "must be an object")])
    if _is_too_deep(source):
        message = f"is nested deeper than {MAX_DEPTH} levels"
        raise GraphInvalidError([_problem("FIELD_INVALID", "document", message)])
    try:
        size_bytes = len(canonical_json(source))
    except ValueError:
        # Messages that quote such a text could not be sent.
        message = "has a number beyond 1e308, or a text that is not valid Unicode"
        raise GraphInvalidError([_problem("FIELD_INVALID", "document", message)]) from None
    problems = list(size_problems(size_bytes))
    if problems:
        # To find all others would take seconds.
        raise GraphInvalidError(problems)
    header = _parsed(
        _Header,
        {key: value for key, value in source.items() if key not in ("nodes", "edges")},
        "",
        problems,
    )
    raw_nodes = _list(source, "nodes", MIN_NODES, MAX_NODES, problems)
    raw_edges = _list(source, "edges", MIN_EDGES, MAX_EDGES, problems)
    if len(raw_nodes) > MAX_NODES or len(raw_edges) > MAX_EDGES:
        # To check all of them would take too long, and to check some of them would mislead.
        raise GraphInvalidError(problems)
    nodes = [_node(raw, f"nodes[{i}]", problems) for i, raw in enumerate(raw_nodes)]
    edges = [_parsed(Edge, raw, f"edges[{i}]", problems) for i, raw in enumerate(raw_edges)]
    problems += shape_problems(raw_nodes, raw_edges)
    pairs = [_pair(raw) for raw in raw_edges]
    problems += node_problems(nodes, pairs)
    texts, syntax_problems = read_texts(nodes, edges)
    problems += syntax_problems
    problems += reference_problems(texts, [_id(raw) for raw in raw_nodes], pairs)
    problems += weight_problems(nodes, edges, texts)
    if problems or header is None:
        raise GraphInvalidError(sorted(problems, key=lambda problem: _place(problem.where)))
    document = GraphDocument.model_construct(
        title=header.title,
        deadline_sec=header.deadline_sec,
        input_schema=header.input_schema,
        nodes=tuple(node for node in nodes if node is not None),
        edges=tuple(edge for edge in edges if edge is not None),
    )
    return compiled(document, source)


def _problem(code: str, where: str, message: str) -> GraphProblem:
    return GraphProblem(code=code, where=where, message=message)


def _is_too_deep(source: JsonValue) -> bool:
    level: list[JsonValue] = [source]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


def _list(
    source: Mapping[str, JsonValue], name: str, least: int, most: int, problems: list[GraphProblem]
) -> Sequence[JsonValue]:
    if name not in source:
        problems.append(_problem("FIELD_MISSING", name, f"is required: a list of {name}"))
        return []
    value = source[name]
    if not isinstance(value, list):
        problems.append(_problem("FIELD_INVALID", name, "must be a list"))
        return []
    if not least <= len(value) <= most:
        problems.append(
            _problem("FIELD_INVALID", name, f"must have {least} to {most} items, not {len(value)}")
        )
    return value


def _id(raw: JsonValue) -> str | None:
    name = raw.get("id") if isinstance(raw, dict) else None
    return name if isinstance(name, str) else None


def _pair(raw: JsonValue) -> tuple[str, str] | None:
    if not isinstance(raw, dict):
        return None
    source, target = raw.get("from"), raw.get("to")
    return (source, target) if isinstance(source, str) and isinstance(target, str) else None


def _node(raw: JsonValue, where: str, problems: list[GraphProblem]) -> Node | None:
    if not isinstance(raw, dict):
        problems.append(_problem("FIELD_INVALID", where, "must be an object"))
        return None
    if "type" not in raw:
        problems.append(_problem("FIELD_MISSING", f"{where}.type", f"is required: {_TYPES}"))
        return None
    kind = raw["type"]
    if not isinstance(kind, str) or kind not in NODE_CLASSES:
        problems.append(_problem("FIELD_INVALID", f"{where}.type", f"must be {_TYPES}"))
        return None
    node: Node | None = _parsed(NODE_CLASSES[kind], raw, where, problems)
    return node


_TYPES: Final = "one of " + ", ".join(NODE_CLASSES)


def _parsed(
    model: type[BaseModel], raw: JsonValue, where: str, problems: list[GraphProblem]
) -> Any:
    """Return the parsed part, or None after its problems were added."""
    if not isinstance(raw, dict):
        problems.append(_problem("FIELD_INVALID", where, "must be an object"))
        return None
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            code = _CODES.get(fault["type"], "FIELD_INVALID")
            problems.append(_problem(code, _where(where, fault["loc"]), fault_words(fault)))
        return None


def _where(base: str, location: tuple[int | str, ...]) -> str:
    text = base
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{shown(step)}" if text else shown(step)
    return text


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Sorts `nodes[10]` after `nodes[9]`."""

    group: str
    index: int
    rest: str


def _place(where: str) -> _Place:
    group, _, rest = where.partition("[")
    index, _, rest = rest.partition("]")
    return _Place(group, int(index) if index.isdigit() else -1, rest)
