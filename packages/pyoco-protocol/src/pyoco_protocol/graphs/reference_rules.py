"""Problems of references from conditions and templates to other nodes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pyoco_protocol.graphs.problems import GraphProblem, shown
from pyoco_protocol.graphs.shape import CycleError, Shape, shape_of
from pyoco_protocol.graphs.texts import ReadText, TextUse

MAX_FACTS: Final = 100


def reference_problems(
    texts: Iterable[ReadText], ids: Sequence[str | None], pairs: Sequence[tuple[str, str] | None]
) -> Iterator[GraphProblem]:
    """Yield the problems of references.

    `ids` are the ids of all nodes and `pairs` the ends of all edges; None for what cannot be read.
    """
    known = {name for name in ids if name is not None}
    shape = _shape(ids, pairs)
    facts: set[tuple[str | None, str]] = set()
    for text in texts:
        facts.update(text.facts())
        for node in dict.fromkeys(path.node for path in text.paths):
            if node is not None and None not in ids:
                yield from _reference(text, node, known, shape)
    if len(facts) > MAX_FACTS:
        yield GraphProblem(
            code="FACTS_TOO_MANY",
            where="document",
            message=f"conditions, keys and prompts refer to {len(facts)} different values; "
            f"at most {MAX_FACTS} are allowed",
        )


def _shape(ids: Sequence[str | None], pairs: Sequence[tuple[str, str] | None]) -> Shape | None:
    """Return the shape, or None while other problems make it unknown."""
    names = [name for name in ids if name is not None]
    edges = [pair for pair in pairs if pair is not None]
    known = set(names)
    if len(known) < len(ids) or len(edges) < len(pairs):
        return None
    if any(source not in known or target not in known for source, target in edges):
        return None
    try:
        return shape_of(names, edges)
    except CycleError:
        return None


def _reference(
    text: ReadText, node: str, known: set[str], shape: Shape | None
) -> Iterator[GraphProblem]:
    if node not in known:
        message = f"refers to {shown(node)}, which is not the id of a node"
        yield GraphProblem(code="REF_UNKNOWN_NODE", where=text.where, message=message)
    elif shape is not None and text.node in known:
        # A condition may name the source of its edge, a template not its own node.
        is_source = text.use is TextUse.CONDITION and node == text.node
        if not is_source and not shape.is_before(node, text.node):
            message = f"refers to {node}, which does not lie before {text.node} on any path"
            yield GraphProblem(code="REF_NOT_ANCESTOR", where=text.where, message=message)
