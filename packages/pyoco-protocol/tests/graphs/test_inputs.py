"""What a graph asks of its executions: the fields of the input, and API keys."""

import pytest

from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, line

SCHEMA = {
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "total": {"type": "number"},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "more": {"type": "object"},
        "items": {"type": ["array", "null"]},
    },
}


@pytest.mark.parametrize(
    "given_input",
    [
        {"id": "x"},
        {"id": "", "unknown": 1},
        {"id": "x", "total": 5},
        {"id": "x", "total": 5.5},
        {"id": "x", "count": 5},
        {"id": "x", "count": 5.0},
        {"id": "x", "flag": False},
        {"id": "x", "more": {}},
        {"id": "x", "items": []},
        {"id": "x", "items": None},
    ],
)
def test_an_input_that_fits_the_schema_has_no_problems(given_input: JsonObject) -> None:
    assert validate_graph(line(inputSchema=SCHEMA)).check_input(given_input) == []


@pytest.mark.parametrize(
    ("given_input", "code", "where"),
    [
        ({}, "FIELD_MISSING", "input.id"),
        ({"id": None}, "FIELD_INVALID", "input.id"),
        ({"id": 5}, "FIELD_INVALID", "input.id"),
        ({"id": "x", "total": "5"}, "FIELD_INVALID", "input.total"),
        ({"id": "x", "total": True}, "FIELD_INVALID", "input.total"),
        ({"id": "x", "count": 5.5}, "FIELD_INVALID", "input.count"),
        ({"id": "x", "count": False}, "FIELD_INVALID", "input.count"),
        ({"id": "x", "flag": 1}, "FIELD_INVALID", "input.flag"),
        ({"id": "x", "more": []}, "FIELD_INVALID", "input.more"),
        ({"id": "x", "items": {}}, "FIELD_INVALID", "input.items"),
    ],
)
def test_an_input_that_does_not_fit_the_schema_has_a_problem_that_names_the_field(
    given_input: JsonObject, code: str, where: str
) -> None:
    problems = validate_graph(line(inputSchema=SCHEMA)).check_input(given_input)
    assert [(problem.code, problem.where) for problem in problems] == [(code, where)]


def test_without_a_schema_any_input_fits() -> None:
    assert validate_graph(line()).check_input({"a": [1]}) == []


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ({}, False),
        ({"approvals": 1}, False),
        ({"approvals": 2}, True),
        ({"approvers": ["ann"]}, True),
    ],
)
def test_a_graph_with_approvals_of_several_or_certain_actors_needs_keys(
    wait: JsonObject, expected: bool
) -> None:
    graph = validate_graph(line({"id": "w", "type": "Wait", "wait": wait}))
    assert graph.has_approvals is expected
