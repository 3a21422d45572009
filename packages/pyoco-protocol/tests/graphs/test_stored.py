"""Stored graph documents: they are compiled, not validated again."""

from typing import Any

import pytest
from hypothesis import given

from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.stored import GraphUnusableError, load_graph
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, forked, line
from pyoco_testkit.graph_strategies import graph_documents


@given(graph_documents())
def test_an_accepted_document_is_loaded_as_it_was_accepted(document: JsonObject) -> None:
    accepted, loaded = validate_graph(document), load_graph(document)
    assert loaded.document == accepted.document
    assert (loaded.hash, loaded.order) == (accepted.hash, accepted.order)


def test_every_field_is_loaded_as_it_was_accepted() -> None:
    document = line(
        {
            "id": "t",
            "type": "Task",
            "title": None,
            "run": {"flow": "f", "tag": "cpu", "params": {"a": ["${input.x}"]}, "labels": ["l"]},
            "timeoutSec": 5,
            "retry": {"maxAttempts": 2, "backoff": {"factor": 3}, "nonRetryable": ["E"]},
            "onFailure": "continue",
        },
        {
            "id": "w",
            "type": "Wait",
            "wait": {
                "key": "k-${input.x}",
                "prompt": {"text": "${nodes.t.output.y}"},
                "approvals": 1,
                "approvers": ["ann"],
                "timeoutSec": 1.5,
                "onTimeout": "resume",
            },
        },
        title="all",
        deadlineSec=60,
        inputSchema={
            "required": ["x"],
            "properties": {"x": {"type": "string"}, "y": {"type": ["null", "number"]}},
        },
    )
    loaded = load_graph(document)
    assert loaded.document == validate_graph(document).document
    assert repr(loaded.document) == repr(validate_graph(document).document)


TASK = {"id": "t", "type": "Task"}
REFUSED_NOW: dict[str, JsonObject] = {
    "too few approvers": line({"id": "w", "type": "Wait", "wait": {"approvers": []}}),
    "a reference to no node": line(
        {"id": "w", "type": "Wait", "wait": {"key": "${nodes.x.output.a}"}}
    ),
    "too large": line({**TASK, "run": {"flow": "f", "params": {"a": "x" * 300_000}}}),
    "too many nodes": line(*({"id": f"t{i}", "type": "Task"} for i in range(1_001))),
    "too many branches": forked(*({"id": f"t{i}", "type": "Task"} for i in range(101))),
}


@pytest.mark.parametrize("document", REFUSED_NOW.values(), ids=REFUSED_NOW)
def test_rules_of_acceptance_are_not_applied_to_stored_documents(document: JsonObject) -> None:
    with pytest.raises(GraphInvalidError):
        validate_graph(document)
    loaded = load_graph(document)
    assert len(loaded.order) == len(document["nodes"])


EDGES = line(TASK)["edges"]
UNUSABLE: dict[str, Any] = {
    "no nodes": {"edges": []},
    "no edges": {"nodes": []},
    "nodes of another type": {"nodes": {}, "edges": []},
    "a node of another type": {"nodes": [7], "edges": []},
    "a node without a type": {"nodes": [{"id": "a"}], "edges": []},
    "an unknown type": {"nodes": [{"id": "a", "type": "Loop"}], "edges": []},
    "an unknown field": line({**TASK, "color": "red"}),
    "an unknown policy": line({**TASK, "onFailure": "retry"}),
    "an unknown type of input": line(inputSchema={"properties": {"a": {"type": "date"}}}),
    "a text for a number": line({**TASK, "timeoutSec": "5"}),
    "a truth for a number": line({**TASK, "timeoutSec": True}),
    "a number that is too large": line({**TASK, "timeoutSec": 10**400}),
    "a null for an object": line({**TASK, "retry": None}),
    "a cycle": {**line(TASK), "edges": [*EDGES, {"from": "t", "to": "t"}]},
    "an edge to no node": {**line(TASK), "edges": [*EDGES, {"from": "t", "to": "x"}]},
    "an edge from no node": {**line(TASK), "edges": [*EDGES, {"from": "x", "to": "t"}]},
    "two nodes of one id": {**line(TASK), "nodes": [*line(TASK)["nodes"], TASK]},
    "a condition": {**line(TASK), "edges": [{**EDGES[0], "when": "="}, *EDGES[1:]]},
    "a key": line({"id": "w", "type": "Wait", "wait": {"key": "${"}}),
    "a prompt": line({"id": "w", "type": "Wait", "wait": {"prompt": {"a": "${"}}}),
}


@pytest.mark.parametrize("document", UNUSABLE.values(), ids=UNUSABLE)
def test_a_document_that_cannot_be_compiled_is_refused(document: Any) -> None:
    with pytest.raises(GraphUnusableError):
        load_graph(document)
