"""The weight of a graph: an upper bound of the bytes that one commit of its events can have."""

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.document import Edge, JoinNode, Node, TaskNode, WaitNode
from pyoco_protocol.graphs.facts import MAX_FACT_CHARS
from pyoco_protocol.graphs.problems import GraphProblem, LanguageError
from pyoco_protocol.graphs.templates import parse_template, strings_of

MAX_DOCUMENT_BYTES: Final = 262_144
MAX_WEIGHT: Final = 700_000
_TASK_EVENTS: Final = 3
_OTHER_EVENTS: Final = 5
_EVENT_BYTES: Final = 120
_LIST_ITEM_BYTES: Final = 3


def weight_problems(
    source: JsonValue,
    nodes: Sequence[Node | None],
    edges: Sequence[Edge | None],
    document_bytes: int,
) -> Iterator[GraphProblem]:
    """Yield the problem of a graph that is too heavy."""
    if document_bytes > MAX_DOCUMENT_BYTES:
        message = f"has {document_bytes} bytes; at most {MAX_DOCUMENT_BYTES} are allowed"
        yield GraphProblem(code="GRAPH_TOO_HEAVY", where="document", message=message)
    weight = weight_of(nodes, edges)
    if weight > MAX_WEIGHT:
        message = (
            f"one commit could have {weight} bytes; at most {MAX_WEIGHT} are allowed: use fewer "
            "nodes, shorter ids or shorter prompts"
        )
        yield GraphProblem(code="GRAPH_TOO_HEAVY", where="document", message=message)


def weight_of(nodes: Sequence[Node | None], edges: Sequence[Edge | None]) -> int:
    """Return the weight of the nodes and edges that could be parsed."""
    branches: dict[str, int] = {}
    for edge in edges:
        if edge is not None:
            length = len(edge.source) + _LIST_ITEM_BYTES
            branches[edge.target] = branches.get(edge.target, 0) + length
    weight = 0
    for node in nodes:
        if node is None:
            continue
        events = _TASK_EVENTS if isinstance(node, TaskNode) else _OTHER_EVENTS
        weight += events * (_EVENT_BYTES + len(node.id))
        if isinstance(node, JoinNode):
            weight += 2 * branches.get(node.id, 0)
        if isinstance(node, WaitNode):
            weight += _text_weight(node.wait.key) + _text_weight(node.wait.prompt)
    return weight


def _text_weight(value: JsonValue) -> int:
    if value is None:
        return 0
    references = sum(_references(text) for _, text in strings_of(value))
    return len(canonical_json(value)) + MAX_FACT_CHARS * references


def _references(text: str) -> int:
    try:
        return len(parse_template(text).paths)
    except LanguageError:
        return 0
