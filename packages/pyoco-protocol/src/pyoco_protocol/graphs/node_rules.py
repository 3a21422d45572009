"""Problems of single nodes beyond the types of their fields."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.graphs.document import JoinNode, JoinPolicy, Node, TaskNode, WaitNode
from pyoco_protocol.graphs.problems import GraphProblem

MAX_PARAMS_BYTES: Final = 65_536
MAX_PROMPT_BYTES: Final = 16_384


def node_problems(
    nodes: Sequence[Node | None], pairs: Sequence[tuple[str, str] | None]
) -> Iterator[GraphProblem]:
    """Yield the problems of each node that could be parsed; `pairs` are the ends of all edges."""
    branches = Counter(None if pair is None else pair[1] for pair in pairs)
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        match node:
            case TaskNode():
                yield from _task(node, where)
            case WaitNode():
                yield from _wait(node, where)
            case JoinNode():
                yield from _join(node, where, branches[node.id] + branches[None])


def _task(node: TaskNode, where: str) -> Iterator[GraphProblem]:
    if node.run is not None and len(canonical_json(node.run.params)) > MAX_PARAMS_BYTES:
        yield _invalid(f"{where}.run.params", f"must have at most {MAX_PARAMS_BYTES} bytes")


def _wait(node: WaitNode, where: str) -> Iterator[GraphProblem]:
    wait = node.wait
    if wait.prompt is not None and len(canonical_json(wait.prompt)) > MAX_PROMPT_BYTES:
        yield _invalid(f"{where}.wait.prompt", f"must have at most {MAX_PROMPT_BYTES} bytes")
    if wait.approvers is not None and len(set(wait.approvers)) < (wait.approvals or 1):
        yield GraphProblem(
            code="APPROVERS_TOO_FEW",
            where=f"{where}.wait.approvers",
            message=f"{wait.approvals or 1} approvals need as many different approvers, "
            f"not {len(set(wait.approvers))}",
        )


def _join(node: JoinNode, where: str, branches: int) -> Iterator[GraphProblem]:
    if node.policy is not JoinPolicy.CUSTOM:
        for name, value in (("minSuccess", node.min_success), ("maxFail", node.max_fail)):
            if value is not None:
                yield _invalid(f"{where}.{name}", "is allowed only with the policy CUSTOM")
    elif node.min_success is None and node.max_fail is None:
        yield GraphProblem(
            code="FIELD_MISSING",
            where=f"{where}.minSuccess",
            message="the policy CUSTOM needs minSuccess, maxFail or both",
        )
    elif (node.min_success or 0) > branches:
        yield GraphProblem(
            code="CUSTOM_IMPOSSIBLE",
            where=f"{where}.minSuccess",
            message=f"asks for {node.min_success} successes of {branches} branches",
        )


def _invalid(where: str, message: str) -> GraphProblem:
    return GraphProblem(code="FIELD_INVALID", where=where, message=message)
