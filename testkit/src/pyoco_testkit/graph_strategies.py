"""Hypothesis strategies for valid graph documents of every shape."""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

JsonObject = dict[str, Any]
_Edge = tuple[str, str]

_POLICIES = ("ALL_SUCCESS", "ANY_SUCCESS", "ANY_SUCCESS", "ALL_DONE", "CUSTOM")
_CONDITIONS = (
    "output.ok == true",
    "status == 'FAILED'",
    "input.flag",
    "exists(output.ok)",
    "not (output.ok == false)",
)
_FAILURES = (None, None, "fail", "continue", "continue", "contain", "contain")
_END_TYPES = {"done": "Success", "bad": "Failed", "stop": "Canceled"}
_ENDS = (("done",), ("done",), ("done", "bad"), ("done", "stop"), ("done", "bad", "stop"))


def graph_documents(*, max_inner: int = 12) -> st.SearchStrategy[JsonObject]:
    """Return a strategy for valid documents with fitting node types and conditions.

    Hypothesis chooses the size and a seed. Its own choices prefer small values so much that most
    graphs would have neither a Fork nor a Join.
    """
    return st.builds(
        graph_document, st.integers(0, 2**32 - 1), st.sampled_from(range(1, max_inner + 1))
    )


def graph_document(seed: int, size: int) -> JsonObject:
    """Return a valid document with about `size` nodes beside start and ends, the same each time."""
    rng = Random(seed)  # noqa: S311 - not a secret
    shape = _nested if rng.random() < 0.5 else _woven
    kinds, edges = shape(rng, size, rng.choice(_ENDS))
    nodes: list[JsonObject] = [{"id": "start", "type": "Start"}]
    for name, kind in kinds.items():
        branches = sum(1 for _, target in edges if target == name)
        nodes.append(_node(rng, name, kind, branches))
    used = {target for _, target in edges}
    nodes += [_end(rng, end, kind) for end, kind in _END_TYPES.items() if end in used]
    if rng.random() < 0.3:
        rng.shuffle(nodes)
    types = {node["id"]: node["type"] for node in nodes}
    document: JsonObject = {"nodes": nodes, "edges": _with_conditions(rng, edges, types)}
    if rng.random() < 0.1:
        document["deadlineSec"] = rng.randint(1, 30)
    return document


def _nested(rng: Random, size: int, ends: Sequence[str]) -> tuple[dict[str, str], list[_Edge]]:
    """Return nodes and edges in which each Fork has a Join, one inside the other."""
    kinds: dict[str, str] = {}
    edges: list[_Edge] = []

    def add(kind: str, *sources: str) -> str:
        name = f"n{len(kinds)}"
        kinds[name] = kind
        edges.extend((source, name) for source in sources)
        return name

    def sequence(last: str, budget: int) -> str:
        while budget > 0:
            if budget > 3 and rng.random() < 0.7:
                fork = add("Fork", last)
                branches = rng.choice((2, 2, 3))
                each = max(1, (budget - 2) // branches)
                last = add("Join", *[sequence(fork, each) for _ in range(branches)])
                budget -= 2 + branches * each
            else:
                last = add(rng.choice(("Task", "Task", "Wait")), last)
                budget -= rng.choice((1, 2))
        return last

    edges.append((sequence("start", size), "done"))
    for name, kind in kinds.items():
        # Such a node does not lead to its Join only.
        if kind in ("Task", "Wait") and rng.random() < 0.1:
            edges.append((name, rng.choice(ends)))
    return kinds, list(dict.fromkeys(edges))


def _woven(rng: Random, size: int, ends: Sequence[str]) -> tuple[dict[str, str], list[_Edge]]:
    """Return nodes and edges of any form."""
    names = [f"n{i}" for i in range(size)]
    edges = _woven_edges(rng, names, ends)
    kinds = {}
    for name in names:
        choices = ["Task", "Task", "Wait"]
        choices += ["Fork"] * 4 if sum(1 for source, _ in edges if source == name) > 1 else []
        choices += ["Join"] * 6 if sum(1 for _, target in edges if target == name) > 1 else []
        kinds[name] = rng.choice(choices)
    return kinds, edges


def _woven_edges(rng: Random, inner: Sequence[str], ends: Sequence[str]) -> list[_Edge]:
    """Return edges that lead from the start through every inner node to an end."""
    edges: list[_Edge] = [("start", inner[0])]
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


def _end(rng: Random, name: str, kind: str) -> JsonObject:
    node: JsonObject = {"id": name, "type": kind}
    if kind == "Failed" and rng.random() < 0.5:
        node["error"] = {"code": "TOO_SMALL", "message": "nothing to ship"}
    if kind == "Canceled" and rng.random() < 0.5:
        node["reason"] = "nothing to ship"
    return node


def _node(rng: Random, name: str, kind: str, branches: int) -> JsonObject:
    node: JsonObject = {"id": name, "type": kind}
    failure = rng.choice(_FAILURES)
    if failure is not None and kind in ("Task", "Wait", "Join"):
        node["onFailure"] = failure
    if kind == "Task":
        node |= _task(rng)
    elif kind == "Wait":
        node["wait"] = _wait(rng)
    elif kind == "Join":
        node |= _join(rng, branches)
    return node


def _task(rng: Random) -> JsonObject:
    task: JsonObject = {}
    if rng.random() < 0.25:
        task["run"] = {"flow": "work"}
    if rng.random() < 0.5:
        task["timeoutSec"] = rng.randint(1, 20)
    if rng.random() < 0.5:
        task["retry"] = {
            "maxAttempts": rng.randint(1, 3),
            "backoff": {"initialSec": rng.choice((0, 1, 20)), "jitter": rng.choice((0, 1))},
            "nonRetryable": ["HOPELESS"],
        }
    return task


def _wait(rng: Random) -> JsonObject:
    wait: JsonObject = {}
    if rng.random() < 0.5:
        wait["key"] = "k-${input.flag}"
    if rng.random() < 0.3:
        wait["prompt"] = {"text": "Go on with ${input.flag}?"}
    match rng.randrange(6):
        case 0:
            wait["approvals"] = 2
        case 1:
            wait["approvers"] = ["ann", "bob"]
        case 2:
            wait |= {"approvals": 2, "approvers": ["ann", "bob", "cho"]}
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
    rng: Random, edges: Sequence[_Edge], types: dict[str, str]
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
