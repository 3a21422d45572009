"""Problems of conditions and templates: syntax, and references to other nodes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyoco_protocol.graphs.conditions import parse_condition
from pyoco_protocol.graphs.document import Edge, Node, TaskNode, WaitNode
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.problems import GraphProblem, LanguageError
from pyoco_protocol.graphs.shape import CycleError, Shape, shape_of
from pyoco_protocol.graphs.templates import parse_template, strings_of

MAX_FACT_PATHS: Final = 100


@dataclass(frozen=True, slots=True)
class _Text:
    """A condition or template, and the node from which its references are seen."""

    where: str
    node: str
    is_fact: bool
    # References of a condition may name the source of its edge; a template not its own node.
    may_name_itself: bool
    paths: tuple[Path, ...]


def reference_problems(
    nodes: Sequence[Node | None], edges: Sequence[Edge | None]
) -> Iterator[GraphProblem]:
    """Yield the problems of all conditions and templates that could be read."""
    texts: list[_Text] = []
    for read in (_conditions(edges), _templates(nodes)):
        for found in read:
            if isinstance(found, GraphProblem):
                yield found
            else:
                texts.append(found)
    known = {node.id for node in nodes if node is not None}
    shape = _shape(nodes, edges)
    facts: set[tuple[str | None, str]] = set()
    for text in texts:
        for path in text.paths:
            if text.is_fact:
                owner = text.node if path.root in ("output", "error", "status") else path.node
                facts.add((owner, path.root.removeprefix("node_") + path.fact_key))
            if path.node is not None and len(known) == len(nodes):
                yield from _reference(text, path.node, known, shape)
    if len(facts) > MAX_FACT_PATHS:
        yield GraphProblem(
            code="FACTS_TOO_MANY",
            where="document",
            message=f"conditions, keys and prompts refer to {len(facts)} different paths; "
            f"at most {MAX_FACT_PATHS} are allowed",
        )


def _shape(nodes: Sequence[Node | None], edges: Sequence[Edge | None]) -> Shape | None:
    """Return the shape, or None while other problems make it unknown."""
    names = [node.id for node in nodes if node is not None]
    pairs = [(edge.source, edge.target) for edge in edges if edge is not None]
    known = set(names)
    if len(known) < len(nodes) or len(pairs) < len(edges):
        return None
    if any(source not in known or target not in known for source, target in pairs):
        return None
    try:
        return shape_of(names, pairs)
    except CycleError:
        return None


def _reference(
    text: _Text, node: str, known: set[str], shape: Shape | None
) -> Iterator[GraphProblem]:
    if node not in known:
        message = f"refers to {node}, which is not the id of a node"
        yield GraphProblem(code="REF_UNKNOWN_NODE", where=text.where, message=message)
    elif shape is not None and text.node in known:
        is_itself = text.may_name_itself and node == text.node
        if not is_itself and not shape.is_before(node, text.node):
            message = f"refers to {node}, which does not lie before {text.node} on any path"
            yield GraphProblem(code="REF_NOT_ANCESTOR", where=text.where, message=message)


def _conditions(edges: Iterable[Edge | None]) -> Iterator[_Text | GraphProblem]:
    for index, edge in enumerate(edges):
        if edge is not None and edge.when is not None:
            where = f"edges[{index}].when"
            paths = _read("CONDITION_SYNTAX", where, partial(_condition_paths, edge.when))
            if isinstance(paths, GraphProblem):
                yield paths
            else:
                yield _Text(where, edge.source, True, True, paths)


def _condition_paths(text: str) -> tuple[Path, ...]:
    return parse_condition(text).paths


def _templates(nodes: Iterable[Node | None]) -> Iterator[_Text | GraphProblem]:
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        if isinstance(node, WaitNode):
            if node.wait.key is not None:
                yield _template(f"{where}.wait.key", node.id, node.wait.key)
            for place, text in strings_of(node.wait.prompt, f"{where}.wait.prompt"):
                yield _template(place, node.id, text)
        elif isinstance(node, TaskNode) and node.run is not None:
            for place, text in strings_of(dict(node.run.params), f"{where}.run.params"):
                yield _template(place, node.id, text, for_params=True)


def _template(
    where: str, node: str, text: str, *, for_params: bool = False
) -> _Text | GraphProblem:
    paths = _read(
        "TEMPLATE_SYNTAX", where, lambda: parse_template(text, for_params=for_params).paths
    )
    if isinstance(paths, GraphProblem):
        return paths
    return _Text(where, node, not for_params, False, paths)


def _read(
    code: str, where: str, parse: Callable[[], tuple[Path, ...]]
) -> tuple[Path, ...] | GraphProblem:
    try:
        return parse()
    except LanguageError as error:
        return GraphProblem(code=code, where=where, message=str(error))
