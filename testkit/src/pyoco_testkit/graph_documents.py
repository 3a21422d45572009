"""Small graph documents for tests."""

from itertools import pairwise
from typing import Any

JsonObject = dict[str, Any]


def edges_of(*ids: str) -> list[JsonObject]:
    """Return the edges from each node to the next one."""
    return [{"from": source, "to": target} for source, target in pairwise(ids)]


def line(*nodes: JsonObject, **header: Any) -> JsonObject:
    """Return a graph that leads from `start` through these nodes to `done`."""
    return {
        **header,
        "nodes": [{"id": "start", "type": "Start"}, *nodes, {"id": "done", "type": "Success"}],
        "edges": edges_of("start", *(node["id"] for node in nodes), "done"),
    }


def forked(*branches: JsonObject, **join: Any) -> JsonObject:
    """Return a graph in which these nodes are the branches between `fork` and `join`."""
    return {
        "nodes": [
            {"id": "start", "type": "Start"},
            {"id": "join", "type": "Join", **join},
            {"id": "fork", "type": "Fork"},
            *branches,
            {"id": "done", "type": "Success"},
        ],
        "edges": [
            *edges_of("start", "fork"),
            *(edge for node in branches for edge in edges_of("fork", node["id"], "join")),
            *edges_of("join", "done"),
        ],
    }
