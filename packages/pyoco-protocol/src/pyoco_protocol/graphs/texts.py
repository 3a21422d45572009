"""The conditions and templates of a graph, with the paths that they read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from pydantic import JsonValue

from pyoco_protocol.graphs.conditions import parse_condition
from pyoco_protocol.graphs.document import Edge, Node, TaskNode, WaitNode
from pyoco_protocol.graphs.paths import Path
from pyoco_protocol.graphs.problems import MAX_PROBLEMS, GraphProblem, LanguageError
from pyoco_protocol.graphs.templates import parse_template, strings_of


class TextUse(Enum):
    """Where a text is used."""

    CONDITION = "condition"
    # Wait keys and prompts.
    SHOWN = "shown"
    PARAMS = "params"


@dataclass(frozen=True, slots=True)
class ReadText:
    """A parsed condition or template; `node` is the one from which its paths are seen."""

    where: str
    node: str
    use: TextUse
    paths: tuple[Path, ...]

    def facts(self) -> Iterator[tuple[str | None, str]]:
        """Yield the facts that the text reads: the node, None for the input, and the key."""
        if self.use is TextUse.PARAMS:
            return
        for path in self.paths:
            if path.root == "input":
                yield None, path.fact_key
            elif path.root == "output":
                yield self.node, path.fact_key
            elif path.root == "node_output":
                yield path.node, path.fact_key


def read_texts(
    nodes: Sequence[Node | None], edges: Sequence[Edge | None]
) -> tuple[list[ReadText], list[GraphProblem]]:
    """Return the texts that can be parsed, and the problems of the others, up to `MAX_PROBLEMS`."""
    texts: list[ReadText] = []
    problems: list[GraphProblem] = []
    for found in chain(_conditions(edges), _templates(nodes)):
        if not isinstance(found, GraphProblem):
            texts.append(found)
            continue
        problems.append(found)
        if len(problems) >= MAX_PROBLEMS:
            break
    return texts, problems


def _conditions(edges: Iterable[Edge | None]) -> Iterator[ReadText | GraphProblem]:
    for index, edge in enumerate(edges):
        if edge is not None and edge.when is not None:
            yield _read(f"edges[{index}].when", edge.source, TextUse.CONDITION, edge.when)


def _templates(nodes: Iterable[Node | None]) -> Iterator[ReadText | GraphProblem]:
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        if isinstance(node, WaitNode):
            if node.wait.key is not None:
                yield _read(f"{where}.wait.key", node.id, TextUse.SHOWN, node.wait.key)
            yield from _all(node.wait.prompt, f"{where}.wait.prompt", node.id, TextUse.SHOWN)
        elif isinstance(node, TaskNode) and node.run is not None:
            yield from _all(node.run.params, f"{where}.run.params", node.id, TextUse.PARAMS)


def _all(
    value: JsonValue, where: str, node: str, use: TextUse
) -> Iterator[ReadText | GraphProblem]:
    for place, text in strings_of(value, where):
        # Other strings refer to nothing, and a document may have tens of thousands of them.
        if "${" in text:
            yield _read(place, node, use, text)


def _read(where: str, node: str, use: TextUse, text: str) -> ReadText | GraphProblem:
    parse, code = _PARSERS[use]
    try:
        return ReadText(where, node, use, parse(text))
    except LanguageError as error:
        return GraphProblem(code=code, where=where, message=str(error))


_PARSERS: dict[TextUse, tuple[Callable[[str], tuple[Path, ...]], str]] = {
    TextUse.CONDITION: (lambda text: parse_condition(text).paths, "CONDITION_SYNTAX"),
    TextUse.SHOWN: (lambda text: parse_template(text).paths, "TEMPLATE_SYNTAX"),
    TextUse.PARAMS: (
        lambda text: parse_template(text, for_params=True).paths,
        "TEMPLATE_SYNTAX",
    ),
}
