"""Hypothesis strategies for valid graph documents of every shape."""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

JsonObject = dict[str, Any]

_POLICIES = ("ALL_SUCCESS", "ANY_SUCCESS", "ALL_DONE", "CUSTOM")
_CONDITIONS = (
    "output.ok == true",
    "status == 'FAILED'",
    "input.flag",
    "exists(output.ok)",
    "not (output.ok == false)",
)
_FAILURES = (None, None, "fail", "continue", "contain")
_ENDS = (("done",), ("done",), ("done", "bad"), ("done", "stop"), ("done", "bad", "stop"))


def graph_documents(*, max_inner: int = 8) -> st.SearchStrategy[JsonObject]:
    """Return a strategy for valid documents with fitting node types and conditions.

    Hypothesis chooses the size and a seed. Its own choices prefer small values so much that most
    graphs would have neither a Fork nor a Join.
    """
    return st.builds(
        graph_document, st.integers(0, 2**32 - 1), st.sampled_from(range(1, max_inner + 1))
    )


def graph_document(seed: int, size: int) -> JsonObject:
    """Return a valid document with `size` nodes beside start and ends; the same for each seed."""
    rng = Random(seed)  # noqa: S311 - not a secret
    inner = [f"n{i}" for i in range(size)]
    edges = _edges(rng, inner, rng.choice(_ENDS))
    used = {target for _, target in edges}
    nodes: list[JsonObject] = [{"id": "start", "type": "Start"}]
    for name in inner:
        indegree = sum(1 for _, target in edges if target == name)
        outdegree = sum(1 for source, _ in edges if source == name)
        nodes.append(_node(rng, name, indegree, outdegree))
    kinds = {"done": "Success", "bad": "Failed", "stop": "Canceled"}
    nodes += [{"id": end, "type": kind} for end, kind in kinds.items() if end in used]
    types = {node["id"]: node["type"] for node in nodes}
    document: JsonObject = {"nodes": nodes, "edges": _with_conditions(rng, edges, types)}
    if rng.random() < 0.1:
        document["deadlineSec"] = rng.randint(1, 30)
    return document


def _edges(rng: Random, inner: Sequence[str], ends: Sequence[str]) -> list[tuple[str, str]]:
    """Return edges that lead from the start through every inner node to an end."""
    edges: list[tuple[str, str]] = [("start", inner[0])]
    for index, name in enumerate(inner[1:], start=1):
        # Some graphs branch from one node, others are chains.
        earlier = inner[max(0, index - rng.choice((1, 3, index))) : index]
        wanted = min(len(earlier), rng.choice((1, 1, 2, 3)))
        edges += [(source, name) for source in rng.sample(earlier, wanted)]
    for name in inner:
        has_edge = any(source == name for source, _ in edges)
        if name == inner[-1]:
            edges.append((name, "done"))
        elif not has_edge or rng.random() < 0.2:
            edges.append((name, rng.choice(ends)))
    return list(dict.fromkeys(edges))


def _node(rng: Random, name: str, indegree: int, outdegree: int) -> JsonObject:
    kinds = ["Task", "Task", "Wait"]
    kinds += ["Fork"] * 4 if outdegree > 1 else []
    kinds += ["Join"] * 6 if indegree > 1 else []
    kind = rng.choice(kinds)
    node: JsonObject = {"id": name, "type": kind}
    failure = rng.choice(_FAILURES)
    if failure is not None and kind in ("Task", "Wait", "Join"):
        node["onFailure"] = failure
    if kind == "Task":
        node |= _task(rng)
    elif kind == "Wait":
        node["wait"] = _wait(rng)
    elif kind == "Join":
        node |= _join(rng, indegree)
    return node


def _task(rng: Random) -> JsonObject:
    task: JsonObject = {}
    if rng.random() < 0.25:
        task["run"] = {"flow": "work"}
    if rng.random() < 0.5:
        task["timeoutSec"] = rng.randint(1, 20)
    if rng.random() < 0.5:
        task["retry"] = {"maxAttempts": rng.randint(1, 3)}
    return task


def _wait(rng: Random) -> JsonObject:
    wait: JsonObject = {}
    if rng.random() < 0.5:
        wait["key"] = "k-${input.flag}"
    match rng.randrange(4):
        case 0:
            wait["approvals"] = 2
        case 1:
            wait["approvers"] = ["ann", "bob"]
    if rng.random() < 0.5:
        wait |= {"timeoutSec": 10, "onTimeout": rng.choice(("fail", "resume"))}
    return wait


def _join(rng: Random, branches: int) -> JsonObject:
    join: JsonObject = {"policy": rng.choice(_POLICIES)}
    if join["policy"] == "CUSTOM":
        join["minSuccess"] = rng.randint(0, branches)
        if rng.random() < 0.5:
            join["maxFail"] = rng.randint(0, branches)
    join["losers"] = rng.choice(("cancel", "letRun"))
    return join


def _with_conditions(
    rng: Random, edges: Sequence[tuple[str, str]], types: dict[str, str]
) -> list[JsonObject]:
    last = {source: index for index, (source, _) in enumerate(edges)}
    found = []
    for index, (source, target) in enumerate(edges):
        edge: JsonObject = {"from": source, "to": target}
        is_choice = types[source] != "Fork" and last[source] != index
        if is_choice or rng.random() < 0.1:
            edge["when"] = rng.choice(_CONDITIONS)
        found.append(edge)
    return found
