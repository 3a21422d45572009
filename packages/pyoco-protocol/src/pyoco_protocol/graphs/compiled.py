"""A valid graph with everything that the rules need, computed once per version."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.conditions import Condition, parse_condition
from pyoco_protocol.graphs.document import (
    FailurePolicy,
    GraphDocument,
    JoinNode,
    JoinPolicy,
    JsonType,
    Node,
    NodeType,
    WaitNode,
)
from pyoco_protocol.graphs.paths import Path, Steps
from pyoco_protocol.graphs.problems import GraphProblem
from pyoco_protocol.graphs.shape import Shape, shape_of
from pyoco_protocol.graphs.templates import Template, parse_template, strings_of

FactPaths = tuple[tuple[str, Steps], ...]


@dataclass(frozen=True, slots=True)
class CompiledEdge:
    """An edge with its parsed condition."""

    source: str
    target: str
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A valid graph; immutable."""

    document: GraphDocument
    # The document as it was given, and the SHA-256 of its canonical JSON.
    source: dict[str, JsonValue]
    hash: str
    # In the order of the document.
    node_ids: tuple[str, ...]
    nodes: Mapping[str, Node]
    # In topological order.
    order: tuple[str, ...]
    incoming: Mapping[str, tuple[CompiledEdge, ...]]
    outgoing: Mapping[str, tuple[CompiledEdge, ...]]
    joins: tuple[str, ...]
    failure_policy: Mapping[str, FailurePolicy]
    # For each Join, the nodes that lead only to it.
    losers_of: Mapping[str, tuple[str, ...]]
    input_facts: FactPaths
    output_facts: Mapping[str, FactPaths]
    wait_keys: Mapping[str, Template]
    prompts: Mapping[str, dict[str, JsonValue]]
    has_approvals: bool

    def check_input(self, value: Mapping[str, JsonValue]) -> list[GraphProblem]:
        """Return what is wrong with the input of an execution; empty if nothing is."""
        schema = self.document.input_schema
        if schema is None:
            return []
        problems = [
            GraphProblem(code="FIELD_MISSING", where=f"input.{name}", message="is required")
            for name in schema.required
            if name not in value
        ]
        for name, rule in schema.properties.items():
            if name in value and not any(_has_type(value[name], kind) for kind in rule.type):
                message = f"must be of type {' or '.join(rule.type)}"
                problems.append(
                    GraphProblem(code="FIELD_INVALID", where=f"input.{name}", message=message)
                )
        return problems


def _has_type(value: JsonValue, kind: JsonType) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "integer":
            is_whole = isinstance(value, float) and value.is_integer()
            return is_whole or (isinstance(value, int) and not isinstance(value, bool))
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)


def graph_hash(source: JsonValue) -> str:
    """Return the SHA-256 of a document's canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(source)).hexdigest()


def compiled(document: GraphDocument, source: dict[str, JsonValue]) -> CompiledGraph:
    """Return the graph of a document without problems."""
    node_ids = tuple(node.id for node in document.nodes)
    nodes = {node.id: node for node in document.nodes}
    edges = [
        CompiledEdge(
            edge.source, edge.target, None if edge.when is None else parse_condition(edge.when)
        )
        for edge in document.edges
    ]
    shape = shape_of(node_ids, [(edge.source, edge.target) for edge in edges])
    keys = {
        node.id: parse_template(node.wait.key)
        for node in document.nodes
        if isinstance(node, WaitNode) and node.wait.key is not None
    }
    prompts = {
        node.id: node.wait.prompt
        for node in document.nodes
        if isinstance(node, WaitNode) and node.wait.prompt is not None
    }
    input_facts, output_facts = _facts(edges, keys.values(), prompts.values())
    joins = tuple(node for node in shape.order if nodes[node].type is NodeType.JOIN)
    return CompiledGraph(
        document=document,
        source=source,
        hash=graph_hash(source),
        node_ids=node_ids,
        nodes=nodes,
        order=shape.order,
        incoming=_grouped(node_ids, edges, by_target=True),
        outgoing=_grouped(node_ids, edges, by_target=False),
        joins=joins,
        failure_policy=_failure_policies(nodes, shape),
        losers_of={join: _leading_only_to(join, shape) for join in joins},
        input_facts=input_facts,
        output_facts=output_facts,
        wait_keys=keys,
        prompts=prompts,
        has_approvals=any(
            isinstance(node, WaitNode)
            and ((node.wait.approvals or 0) > 1 or node.wait.approvers is not None)
            for node in document.nodes
        ),
    )


def _grouped(
    node_ids: Iterable[str], edges: Iterable[CompiledEdge], *, by_target: bool
) -> dict[str, tuple[CompiledEdge, ...]]:
    grouped: dict[str, list[CompiledEdge]] = {node: [] for node in node_ids}
    for edge in edges:
        grouped[edge.target if by_target else edge.source].append(edge)
    return {node: tuple(found) for node, found in grouped.items()}


def _failure_policies(nodes: Mapping[str, Node], shape: Shape) -> dict[str, FailurePolicy]:
    """Return the policies; before a Join that tolerates failures, the default is `contain`."""
    tolerant = 0
    for name, node in nodes.items():
        if isinstance(node, JoinNode) and node.policy is not JoinPolicy.ALL_SUCCESS:
            tolerant |= 1 << shape.rank[name]
    policies: dict[str, FailurePolicy] = {}
    for name, node in nodes.items():
        is_contained = shape.post_dominators[name] & tolerant
        policy = FailurePolicy.CONTAIN if is_contained else FailurePolicy.FAIL
        chosen: FailurePolicy | None = getattr(node, "on_failure", None)
        policies[name] = chosen or policy
    return policies


def _leading_only_to(join: str, shape: Shape) -> tuple[str, ...]:
    bit = 1 << shape.rank[join]
    return tuple(node for node in shape.order if shape.post_dominators[node] & bit)


def _facts(
    edges: Iterable[CompiledEdge], keys: Iterable[Template], prompts: Iterable[JsonValue]
) -> tuple[FactPaths, dict[str, FactPaths]]:
    of_input: dict[str, Steps] = {}
    of_nodes: dict[str, dict[str, Steps]] = {}
    for node, path in _fact_paths(edges, keys, prompts):
        if path.root == "input":
            of_input[path.fact_key] = path.steps
        elif node is not None and path.root in ("output", "node_output"):
            of_nodes.setdefault(node, {})[path.fact_key] = path.steps
    return (
        tuple(of_input.items()),
        {node: tuple(paths.items()) for node, paths in of_nodes.items()},
    )


def _fact_paths(
    edges: Iterable[CompiledEdge], keys: Iterable[Template], prompts: Iterable[JsonValue]
) -> Iterable[tuple[str | None, Path]]:
    """Yield each path of conditions, wait keys and prompts; with an output, also its node."""
    for edge in edges:
        for path in edge.condition.paths if edge.condition is not None else ():
            yield (edge.source if path.root == "output" else path.node), path
    for key in keys:
        for path in key.paths:
            yield path.node, path
    for prompt in prompts:
        for _, text in strings_of(prompt):
            for path in parse_template(text).paths:
                yield path.node, path
