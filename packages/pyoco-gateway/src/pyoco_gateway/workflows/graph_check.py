"""The language of graphs, borrowed from the engine; the only module here that imports it.

Its parser and its builder run nothing: expressions are compiled and not evaluated, and the tasks
they are given here do not exist.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from pyoco_protocol.workflows.graph_rules import GraphLanguage


@cache
def graph_language() -> GraphLanguage:
    """Return the engine's language; the first call loads the engine and takes a while."""
    # Late: a gateway is ready sooner without it, and many never get a workflow file.
    from pyoco.core.models import Task
    from pyoco.dsl.graph import build_flow_from_graph, parse_graph

    def build(graph: str, tasks: Iterable[str], pipes: Mapping[str, str]) -> object:
        dummies = {name: Task(func=_nothing, name=name) for name in tasks}
        return build_flow_from_graph(graph=graph, tasks=dummies, pipes=dict(pipes))

    return GraphLanguage(parse_graph, build)


def _nothing() -> None:
    """Stand where a task would."""
