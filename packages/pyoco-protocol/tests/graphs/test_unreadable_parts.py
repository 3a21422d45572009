"""Graphs with parts that cannot be read, and documents that are no graphs at all."""

import tracemalloc
from typing import Any

import pytest

from pyoco_testkit.graph_documents import JsonObject, edges_of, forked, line
from pyoco_testkit.graph_problems import A, B, but, places_of, problems_of, sized, when

# A problem is not repeated as what follows from it.
UNREADABLE: dict[str, JsonObject] = {
    "a node without a type": but(line(A), {"id": "b"}, edges=edges_of("start", "b", "done"))
    | {
        "edges": [
            {"from": "start", "to": "a", "when": "input.x"},
            *edges_of("start", "b", "done"),
            *edges_of("a", "done"),
        ]
    },
    "a Start of an unknown type": {
        **line(A),
        "nodes": [{"id": "start", "type": "Begin"}, *line(A)["nodes"][1:]],
    },
    "a Success of an unknown type": {
        **line(A),
        "nodes": [*line(A)["nodes"][:2], {"id": "done", "type": "End"}],
    },
    "a reference to a node beside a node without an id": when(
        but(line(A), {"type": "Task"}), "nodes.b.output.x", edge=1
    ),
    "an edge without a source": {
        **line(A),
        "edges": [*edges_of("start", "a"), {"to": "done"}],
    },
    "an edge without a target": {
        **line(A),
        "edges": [*edges_of("start", "a"), {"from": "a"}],
    },
    "an edge to an unknown node": {
        **line(A),
        "edges": [*edges_of("start", "a"), *edges_of("a", "dnoe")],
    },
    "an edge of a Fork that cannot be read": {
        **forked(A, B),
        "edges": [5, *forked(A, B)["edges"][:1], *forked(A, B)["edges"][2:]],
    },
    "an edge into a Join that cannot be read": {
        **forked(A, B, policy="CUSTOM", minSuccess=2),
        "edges": [5, *(each for each in forked(A, B)["edges"] if each != edges_of("a", "join")[0])],
    },
    "no nodes": {"nodes": [], "edges": edges_of("a", "b")},
    "too many nodes": {"nodes": [{}] * 1001, "edges": edges_of("a", "b")},
}


@pytest.mark.parametrize("document", UNREADABLE.values(), ids=UNREADABLE)
def test_a_part_that_cannot_be_read_does_not_look_like_a_missing_one(document: JsonObject) -> None:
    assert len(problems_of(document)) == 1


@pytest.mark.parametrize("document", [None, [], "nodes", 5, True])
def test_a_document_that_is_no_object_is_refused(document: Any) -> None:
    assert places_of(document) == [("FIELD_INVALID", "document")]


@pytest.mark.parametrize(
    "document",
    [
        line(title="\ud800"),
        line({"id": "\ud800", "type": "Task"}),
        line({"id": "t", "type": "Task", "run": {"flow": "f", "params": {"\udfff": 1}}}),
        line(deadlineSec=float("inf")),
        line(deadlineSec=float("nan")),
    ],
)
def test_a_value_that_json_does_not_have_is_refused_without_being_quoted(
    document: JsonObject,
) -> None:
    (problem,) = problems_of(document)
    assert (problem.code, problem.where) == ("FIELD_INVALID", "document")
    assert problem.model_dump_json()


def test_messages_and_places_show_only_the_beginning_of_long_names() -> None:
    name = "x" * 30_000
    document = {
        name: 1,
        "nodes": [{"id": name, "type": "Task"}, {"id": name, "type": "Success"}],
        "edges": [{"from": name, "to": "y" * 30_000}, {"from": name, "to": name}],
    }
    problems = problems_of(document)
    assert len(problems) > 4
    assert all(len(str(each)) < 500 for each in problems)


def test_a_document_that_is_too_large_is_not_checked_further() -> None:
    document = {**sized(262_145), "unknown": 1}
    assert places_of(document) == [("GRAPH_TOO_HEAVY", "document")]


def test_strings_below_a_long_key_take_little_memory() -> None:
    params = {"k" * 30_000: ["${input.a}"] * 2_500}
    document = line({"id": "t", "type": "Task", "run": {"flow": "f", "params": params}})
    tracemalloc.start()
    try:
        assert problems_of(document) == []
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A place for each string with the whole key would take 75 MB.
    assert peak_bytes < 10_000_000
