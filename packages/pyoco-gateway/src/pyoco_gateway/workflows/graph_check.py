"""The engine's graph language; the only module of the gateway that imports the engine.

The parser and the builder execute nothing: expressions are compiled but not evaluated, and the
tasks are placeholders.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from pyoco_protocol.workflows.graph_rules import GraphLanguage


@cache
def graph_language() -> GraphLanguage:
    """Return the engine's graph language; the first call imports the engine, which is slow."""
    # Imported here so that a gateway starts faster; many never receive a workflow file.
    from pyoco.core.models import Task
    from pyoco.dsl.graph import build_flow_from_graph, parse_graph

    def build(graph: str, tasks: Iterable[str], pipes: Mapping[str, str]) -> object:
        placeholders = {name: Task(func=_placeholder, name=name) for name in tasks}
        return build_flow_from_graph(graph=graph, tasks=placeholders, pipes=dict(pipes))

    return GraphLanguage(parse_graph, build)


def _placeholder() -> None:
    """Do nothing."""
