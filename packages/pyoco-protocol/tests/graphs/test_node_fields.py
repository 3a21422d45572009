"""Which fields each type of node has, and their defaults."""

import pytest

from pyoco_protocol.graphs.document import NodeType
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, forked, line

OPTIONAL = {
    "title": list(NodeType),
    "onFailure": [NodeType.TASK, NodeType.WAIT, NodeType.JOIN],
    "run": [NodeType.TASK],
    "timeoutSec": [NodeType.TASK],
    "retry": [NodeType.TASK],
    "wait": [NodeType.WAIT],
    "policy": [NodeType.JOIN],
    "minSuccess": [NodeType.JOIN],
    "maxFail": [NodeType.JOIN],
    "losers": [NodeType.JOIN],
    "error": [NodeType.FAILED],
    "reason": [NodeType.CANCELED],
    "colour": [],
}
VALUES: JsonObject = {
    "title": "a",
    "onFailure": "fail",
    "run": {"flow": "f"},
    "timeoutSec": 1,
    "retry": {},
    "wait": {},
    "policy": "ALL_DONE",
    "minSuccess": 1,
    "maxFail": 1,
    "losers": "cancel",
    "error": {"code": "X"},
    "reason": "a",
    "colour": "red",
}


@pytest.mark.parametrize("kind", NodeType)
@pytest.mark.parametrize("name", OPTIONAL)
def test_a_field_belongs_to_certain_types_of_nodes(name: str, kind: NodeType) -> None:
    with pytest.raises(GraphInvalidError) as refused:
        validate_graph(line({"id": "n", "type": kind.value, name: VALUES[name], "": 1}))
    unknown = {each.where for each in refused.value.problems if each.code == "FIELD_UNKNOWN"}
    assert unknown - {"nodes[1]."} == (set() if kind in OPTIONAL[name] else {f"nodes[1].{name}"})


def test_the_defaults_are_those_of_the_reference() -> None:
    graph = validate_graph(line({"id": "t", "type": "Task"}, {"id": "w", "type": "Wait"}))
    document = graph.document.model_dump(by_alias=True)
    assert document["nodes"][1] == {
        "id": "t",
        "type": "Task",
        "title": None,
        "run": None,
        "timeoutSec": None,
        "retry": {
            "maxAttempts": 1,
            "backoff": {"initialSec": 1, "factor": 2, "maxSec": 300, "jitter": 0},
            "nonRetryable": [],
        },
        "onFailure": None,
    }
    assert document["nodes"][2]["wait"] == {
        "key": None,
        "prompt": None,
        "approvals": None,
        "approvers": None,
        "timeoutSec": None,
        "onTimeout": "fail",
    }
    gate = (
        validate_graph(forked({"id": "a", "type": "Task"}, {"id": "b", "type": "Task"}))
        .nodes["join"]
        .model_dump(by_alias=True)
    )
    assert (gate["policy"], gate["minSuccess"], gate["maxFail"], gate["losers"]) == (
        "ALL_SUCCESS",
        None,
        None,
        "cancel",
    )
