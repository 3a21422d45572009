"""The weight of a graph: an upper bound of the bytes that the events of one commit can have.

A commit must fit one message of 1,048,576 bytes. Beside its events it has a head (at most 60,000
bytes), what users send with a command (at most 270,000 bytes: the payload of an approval is in
three events, and its facts in one of them), and some fields of fixed size (at most 15,000 bytes).
That leaves the events more than `MAX_WEIGHT`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.document import Edge, FailedNode, Node, NodeType, WaitNode
from pyoco_protocol.graphs.facts import MAX_FACT_CHARS
from pyoco_protocol.graphs.problems import GraphProblem
from pyoco_protocol.graphs.texts import ReadText, TextUse

MAX_DOCUMENT_BYTES: Final = 262_144
MAX_WEIGHT: Final = 700_000
# The id of a worker is left out of NODE_INTERRUPT_REQUESTED if it takes more as JSON.
MAX_WORKER_BYTES: Final = 256

# JSON has six bytes for a control character: `\u0001`.
_CHAR_BYTES: Final = 6
# Quotes and comma.
_ITEM_BYTES: Final = 3
# Quotes, colon and comma around the key of a fact, and the kind of a value that is not copied.
_FACT_BYTES: Final = 24


class _Events(NamedTuple):
    """The events of a node in one commit: their bytes without ids, and how often its id occurs."""

    size: int
    ids: int


# The longest sequences: NODE_CREATED and all that follows until the node has ended or is canceled,
# and its id in EXECUTION_COMPLETED. For a Task, the stop of a running attempt that a Join no longer
# needs.
_EVENTS: Final[Mapping[NodeType, _Events]] = {
    NodeType.START: _Events(300, 5),
    NodeType.TASK: _Events(280 + MAX_WORKER_BYTES, 2),
    NodeType.WAIT: _Events(480, 5),
    NodeType.FORK: _Events(380, 6),
    NodeType.JOIN: _Events(680, 7),
    NodeType.SUCCESS: _Events(300, 5),
    NodeType.FAILED: _Events(360, 5),
    NodeType.CANCELED: _Events(250, 3),
}


def size_problems(document_bytes: int) -> Iterator[GraphProblem]:
    """Yield the problem of a document that is too large."""
    if document_bytes > MAX_DOCUMENT_BYTES:
        message = f"has {document_bytes} bytes; at most {MAX_DOCUMENT_BYTES} are allowed"
        yield GraphProblem(code="GRAPH_TOO_HEAVY", where="document", message=message)


def weight_problems(
    nodes: Sequence[Node | None], edges: Sequence[Edge | None], texts: Sequence[ReadText]
) -> Iterator[GraphProblem]:
    """Yield the problem of a graph that is too heavy."""
    weight = weight_of(nodes, edges, texts)
    if weight > MAX_WEIGHT:
        message = (
            f"one commit could have {weight} bytes; at most {MAX_WEIGHT} are allowed: use fewer "
            "nodes, shorter ids, shorter prompts or fewer references in prompts and keys"
        )
        yield GraphProblem(code="GRAPH_TOO_HEAVY", where="document", message=message)


def weight_of(
    nodes: Sequence[Node | None], edges: Sequence[Edge | None], texts: Iterable[ReadText]
) -> int:
    """Return the weight of the nodes, edges and texts that could be parsed."""
    targets: dict[str, list[int]] = {}
    sources: dict[str, int] = {}
    for edge in edges:
        if edge is not None:
            targets.setdefault(edge.source, []).append(len(edge.target) + _ITEM_BYTES)
            length = len(edge.source) + _ITEM_BYTES
            sources[edge.target] = sources.get(edge.target, 0) + length
    weight = 0
    for node in nodes:
        if node is None:
            continue
        events = _EVENTS[node.type]
        weight += events.size + events.ids * len(node.id)
        match node.type:
            case NodeType.START:
                weight += max(targets.get(node.id, ()), default=0)
            case NodeType.FORK:
                # `taken` and `branchIds`.
                weight += 2 * sum(targets.get(node.id, ()))
            case NodeType.JOIN:
                # `expectedBranches`, and one of the other lists.
                weight += 2 * sources.get(node.id, 0)
                weight += max(targets.get(node.id, ()), default=0)
        weight += _own_texts(node)
    facts: set[tuple[str | None, str]] = set()
    for text in texts:
        facts.update(text.facts())
        if text.use is TextUse.SHOWN:
            weight += _CHAR_BYTES * MAX_FACT_CHARS * len(text.paths)
    return weight + sum(len(key) + _FACT_BYTES for _, key in facts)


def _own_texts(node: Node) -> int:
    """Return the bytes of what the document says and the events of the node repeat."""
    values: list[JsonValue] = []
    if isinstance(node, WaitNode):
        values = [node.wait.key, node.wait.prompt, list(node.wait.approvers or ())]
    elif isinstance(node, FailedNode) and node.error is not None:
        values = [node.error.code, node.error.message]
    return sum(len(canonical_json(value)) for value in values if value is not None)
