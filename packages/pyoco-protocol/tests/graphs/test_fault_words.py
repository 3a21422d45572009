"""Faults of fields are described in words of the document, and once for a list that is too long."""

from typing import Any

import pytest

from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import line


def task(**fields: Any) -> Any:
    return line({"id": "t", "type": "Task", **fields})


def wait(**fields: Any) -> Any:
    return line({"id": "w", "type": "Wait", "wait": fields})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (line(title=5), "title: must be text"),
        (line(title="x" * 201), "title: must have at most 200 characters"),
        (line(deadlineSec=0), "deadlineSec: must be at least 1"),
        (task(timeoutSec="10m"), "nodes[1].timeoutSec: must be a number"),
        (task(timeoutSec=1e9), "nodes[1].timeoutSec: must be at most 31536000;"),
        (task(timeoutSec=True), "nodes[1].timeoutSec: must be a number"),
        (task(retry={"maxAttempts": 50}), "nodes[1].retry.maxAttempts: must be at most 20"),
        (task(retry={"maxAttempts": 1.5}), "nodes[1].retry.maxAttempts: must be an integer"),
        (task(retry=3), "nodes[1].retry: must be an object"),
        (task(onFailure="retry"), "nodes[1].onFailure: must be 'fail', 'continue' or 'contain'"),
        (task(run=1), "nodes[1].run: must be an object;"),
        (task(run={"flow": "f", "params": 1}), "nodes[1].run.params: must be an object;"),
        (
            line(inputSchema={"properties": {"a": 1}}),
            "inputSchema.properties.a: must be an object;",
        ),
        (task(wrong=1), "nodes[1].wrong: is not a field here"),
        (wait(approvals="2"), "nodes[1].wait.approvals: must be an integer"),
        (wait(approvers="ann"), "nodes[1].wait.approvers: must be a list;"),
        (wait(approvers=["a"] * 101), "nodes[1].wait.approvers: must have at most 100 items"),
        (wait(prompt="Ship?"), "nodes[1].wait.prompt: must be an object"),
        (line({"id": "9a", "type": "Task"}), "nodes[1].id: must match ^[A-Za-z_]"),
        (line(inputSchema={"properties": {"a": {"type": "text"}}}), "inputSchema.properties.a"),
    ],
)
def test_a_fault_is_described_in_words_of_the_document(document: Any, message: str) -> None:
    with pytest.raises(GraphInvalidError) as caught:
        validate_graph(document)
    assert message in f"{caught.value};"
    for python in ("Input should", "tuple", "Value error", "String should"):
        assert python not in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [
        wait(approvers=[1] * 1_000),
        line(inputSchema={"properties": {"a": {"type": ["x"] * 1_000}}}),
        task(run={"flow": "f", "labels": [1] * 1_000}),
    ],
)
def test_the_items_of_a_list_that_is_too_long_are_not_checked(document: Any) -> None:
    with pytest.raises(GraphInvalidError) as caught:
        validate_graph(document)
    (problem,) = caught.value.problems
    assert "at most" in problem.message
