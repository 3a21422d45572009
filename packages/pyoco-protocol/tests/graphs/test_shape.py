"""Order, ancestors and post-dominators of graphs, against brute force."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.graphs.document import FailurePolicy, JoinPolicy
from pyoco_protocol.graphs.shape import CycleError, reachable, shape_of
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, forked
from pyoco_testkit.graph_strategies import graph_documents

Edges = list[tuple[str, str]]


@st.composite
def acyclic(draw: st.DrawFn) -> tuple[list[str], Edges]:
    """Return nodes in any order, and edges without a cycle."""
    size = draw(st.integers(1, 9))
    rng = Random(draw(st.integers(0, 2**32)))
    ranked = [f"n{i}" for i in range(size)]
    edges = [
        (source, target)
        for i, source in enumerate(ranked)
        for target in ranked[i + 1 :]
        if rng.random() < 0.3
    ]
    rng.shuffle(edges)
    return rng.sample(ranked, size), edges


def paths_from(node: str, edges: Edges) -> Iterator[list[str]]:
    """Yield all paths from a node to any end."""
    targets = [target for source, target in edges if source == node]
    if not targets:
        yield [node]
    for target in targets:
        for path in paths_from(target, edges):
            yield [node, *path]


def order_by_rule(nodes: Sequence[str], edges: Edges) -> list[str]:
    """Take, of the nodes whose predecessors are all taken, the first one of the document."""
    taken: list[str] = []
    while len(taken) < len(nodes):
        taken.append(
            next(
                node
                for node in nodes
                if node not in taken and all(a in taken for a, b in edges if b == node)
            )
        )
    return taken


@given(acyclic())
def test_of_the_nodes_that_may_be_next_the_first_of_the_document_is_next(
    graph: tuple[list[str], Edges],
) -> None:
    nodes, edges = graph
    shape = shape_of(nodes, edges)
    assert list(shape.order) == order_by_rule(nodes, edges)
    assert shape.rank == {node: i for i, node in enumerate(shape.order)}


@given(acyclic())
def test_the_ancestors_of_a_node_are_those_on_a_path_to_it(graph: tuple[list[str], Edges]) -> None:
    nodes, edges = graph
    shape = shape_of(nodes, edges)
    for node in nodes:
        for other in nodes:
            comes_before = node != other and other in reachable(node, edges)
            assert shape.is_before(node, other) == comes_before


@given(acyclic())
def test_the_post_dominators_of_a_node_are_on_every_path_from_it_to_an_end(
    graph: tuple[list[str], Edges],
) -> None:
    nodes, edges = graph
    shape = shape_of(nodes, edges)
    for node in nodes:
        common = set.intersection(*(set(path) for path in paths_from(node, edges))) - {node}
        assert set(shape.names(shape.post_dominators[node])) == common


@given(acyclic())
def test_the_order_of_the_edges_does_not_matter(graph: tuple[list[str], Edges]) -> None:
    nodes, edges = graph
    assert shape_of(nodes, edges) == shape_of(nodes, edges[::-1])


@given(acyclic(), st.data())
def test_a_cycle_is_found_and_its_nodes_are_named_in_order(
    graph: tuple[list[str], Edges], data: st.DataObject
) -> None:
    nodes, edges = graph
    source = data.draw(st.sampled_from(nodes))
    # An edge back from a node to itself or to one that leads to it.
    back = data.draw(st.sampled_from(sorted(reachable(source, edges))))
    edges = [*edges, (back, source)]
    with pytest.raises(CycleError) as cycle:
        shape_of(nodes, edges)
    found = cycle.value.nodes
    assert len(set(found)) == len(found)
    for pair in zip(found, (*found[1:], found[0]), strict=True):
        assert pair in edges


def test_a_thousand_nodes_in_a_line_have_a_shape() -> None:
    nodes = [f"n{i}" for i in range(1000)]
    shape = shape_of(nodes[::-1], list(pairwise(nodes)))
    assert shape.order == tuple(nodes)
    assert shape.names(shape.post_dominators["n0"]) == nodes[1:]


# --- what follows from the shape in a graph


def pdom(document: JsonObject) -> dict[str, set[str]]:
    """Return the post-dominators of each node by brute force."""
    edges = [(each["from"], each["to"]) for each in document["edges"]]
    return {
        node["id"]: set.intersection(*(set(path) for path in paths_from(node["id"], edges)))
        - {node["id"]}
        for node in document["nodes"]
    }


@given(graph_documents())
def test_the_failure_of_a_node_is_contained_before_a_join_that_tolerates_it(
    document: JsonObject,
) -> None:
    graph = validate_graph(document)
    after = pdom(document)
    types = {node["id"]: node for node in document["nodes"]}
    for name, node in types.items():
        tolerant = any(
            types[other]["type"] == "Join" and types[other].get("policy") != JoinPolicy.ALL_SUCCESS
            for other in after[name]
        )
        default = FailurePolicy.CONTAIN if tolerant else FailurePolicy.FAIL
        assert graph.failure_policy[name] == node.get("onFailure", default)


@given(graph_documents())
def test_the_losers_of_a_join_are_the_nodes_that_lead_only_to_it(document: JsonObject) -> None:
    graph = validate_graph(document)
    after = pdom(document)
    joins = [name for name in graph.order if graph.nodes[name].type == "Join"]
    assert list(graph.joins) == joins
    for join in joins:
        assert list(graph.losers_of[join]) == [name for name in graph.order if join in after[name]]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("ALL_SUCCESS", "fail"), ("ANY_SUCCESS", "contain"), ("ALL_DONE", "contain")],
)
def test_the_policy_of_the_join_decides_what_a_failure_before_it_means(
    policy: str, expected: str
) -> None:
    graph = validate_graph(
        forked({"id": "a", "type": "Task"}, {"id": "b", "type": "Task"}, policy=policy)
    )
    assert graph.failure_policy["a"] == expected
    assert graph.failure_policy["join"] == "fail"


def test_a_failed_node_always_fails_the_execution() -> None:
    document = forked(
        {"id": "a", "type": "Task"}, {"id": "b", "type": "Task"}, policy="ANY_SUCCESS"
    )
    document["nodes"].append({"id": "bad", "type": "Failed"})
    document["edges"].insert(2, {"from": "a", "to": "bad", "when": "output.bad"})
    graph = validate_graph(document)
    assert graph.failure_policy["bad"] == "fail"
    # One of its paths does not lead to the Join.
    assert graph.failure_policy["a"] == "fail"


@given(graph_documents())
def test_a_compiled_graph_follows_the_order_of_its_document(document: JsonObject) -> None:
    graph = validate_graph(document)
    edges = [(each["from"], each["to"]) for each in document["edges"]]
    assert list(graph.node_ids) == [node["id"] for node in document["nodes"]]
    for name in graph.node_ids:
        outgoing = [(edge.source, edge.target) for edge in graph.outgoing[name]]
        incoming = [(edge.source, edge.target) for edge in graph.incoming[name]]
        assert outgoing == [edge for edge in edges if edge[0] == name]
        assert incoming == [edge for edge in edges if edge[1] == name]


@given(graph_documents())
def test_the_same_document_always_gives_the_same_graph(document: JsonObject) -> None:
    one, other = validate_graph(document), validate_graph(document)
    for name in ("hash", "order", "failure_policy", "losers_of", "input_facts"):
        assert getattr(one, name) == getattr(other, name)
    assert one.output_facts == other.output_facts
    assert list(one.output_facts) == list(other.output_facts)
    assert one.document == other.document
