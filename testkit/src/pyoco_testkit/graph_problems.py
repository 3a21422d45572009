"""Documents with problems, and the problems of documents."""

from typing import Any

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.problems import GraphInvalidError, GraphProblem
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, line

A: JsonObject = {"id": "a", "type": "Task"}
B: JsonObject = {"id": "b", "type": "Task"}


def problems_of(document: Any) -> list[GraphProblem]:
    """Return the problems of a document; none if it is valid."""
    try:
        validate_graph(document)
    except GraphInvalidError as error:
        return list(error.problems)
    return []


def places_of(document: Any) -> list[tuple[str, str]]:
    """Return code and place of each problem."""
    return [(each.code, each.where) for each in problems_of(document)]


def but(document: JsonObject, *nodes: JsonObject, edges: list[JsonObject] | None = None) -> Any:
    """Return the document with further nodes and edges."""
    return {
        **document,
        "nodes": [*document["nodes"], *nodes],
        "edges": [*document["edges"], *(edges or [])],
    }


def when(document: JsonObject, text: str, edge: int = 0) -> JsonObject:
    """Return the document with a condition on one edge."""
    edges = [dict(each) for each in document["edges"]]
    edges[edge]["when"] = text
    return {**document, "edges": edges}


def sized(size: int) -> JsonObject:
    """Return a document of this many bytes."""
    nodes: list[JsonObject] = [
        {"id": f"t{i}", "type": "Task", "run": {"flow": "f", "params": {"fill": ""}}}
        for i in range(5)
    ]
    document = line(*nodes)
    rest = size - len(canonical_json(document))
    for i, node in enumerate(nodes):
        node["run"]["params"]["fill"] = "x" * (rest // 5 + (rest % 5 if i == 0 else 0))
    return document
