"""Facts: what is copied out of inputs and outputs, and which paths a graph reads."""

import json
from typing import Any

import pytest

from pyoco_protocol.graphs.facts import (
    MAX_FACT_CHARS,
    MISSING,
    Opaque,
    extract_facts,
    fact_from_json,
    fact_of,
    value_at,
)
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, line


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -5, 1.5, 10**256 - 1, -(10**256) + 1, 1e308, "", "ü", "x" * 256],
)
def test_a_scalar_is_copied(value: Any) -> None:
    assert fact_of(value) == value
    assert type(fact_of(value)) is type(value)
    assert fact_from_json(json.loads(json.dumps(fact_of(value)))) == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({}, "object"),
        ({"a": 1}, "object"),
        ([], "array"),
        ([1], "array"),
        ("x" * 257, "text"),
        ("作" * 257, "text"),
        (10**256, "number"),
        (-(10**256), "number"),
        # An object of a user is not taken for a kind.
        ({"$kind": "text"}, "object"),
    ],
)
def test_of_other_values_only_the_kind_is_kept(value: Any, kind: str) -> None:
    assert fact_of(value) == {"$kind": kind}
    assert fact_from_json(fact_of(value)) is Opaque(kind)


def test_no_fact_is_longer_as_text_than_the_longest_text() -> None:
    for value in (10**256 - 1, 1e-308, -1.7976931348623157e308, "x" * 256):
        assert len(str(fact_of(value))) <= MAX_FACT_CHARS + 1


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((), {"a": [{"b": None}, 5], "1": 2}),
        (("a",), [{"b": None}, 5]),
        (("a", 0), {"b": None}),
        (("a", 0, "b"), None),
        (("a", 1), 5),
        (("a", 2), MISSING),
        (("a", "b"), MISSING),
        (("a", 0, "c"), MISSING),
        (("a", 0, "b", "c"), MISSING),
        ((0,), MISSING),
        ((1,), MISSING),
        (("b",), MISSING),
        (("a", 1, 0), MISSING),
    ],
)
def test_steps_lead_to_a_value_or_nowhere(steps: tuple[str | int, ...], found: Any) -> None:
    assert value_at({"a": [{"b": None}, 5], "1": 2}, steps) == found


def test_facts_are_kept_by_path_and_missing_ones_are_left_out() -> None:
    steps: dict[str, tuple[str | int, ...]] = {
        "input.a": ("a",),
        "input.b[0]": ("b", 0),
        "input.c": ("c",),
        "input.d": ("d",),
    }
    assert extract_facts({"a": None, "b": [True], "c": {}}, steps.items()) == {
        "input.a": None,
        "input.b[0]": True,
        "input.c": {"$kind": "object"},
    }


def document(*, when: str = "true", key: str = "k", prompt: Any = None) -> JsonObject:
    found = line(
        {"id": "fetch", "type": "Task", "run": {"flow": "f", "params": {"p": "${input.params}"}}},
        {"id": "ask", "type": "Wait", "wait": {"key": key, "prompt": {"text": prompt or ["x"]}}},
    )
    found["edges"][1]["when"] = when
    return found


def test_a_graph_knows_the_facts_of_its_conditions_keys_and_prompts_and_of_nothing_else() -> None:
    graph = validate_graph(
        document(
            when="output.lines >= 1 and input.total < 5 and nodes.start.output.x and status == 'x'",
            key="${input.order.id} ${nodes.fetch.output.lines}",
            prompt=["${nodes.fetch.output.items[0].name}", "${nodes.fetch.error.code}"],
        )
    )
    assert dict(graph.input_facts) == {
        "input.total": ("total",),
        "input.order.id": ("order", "id"),
    }
    assert {node: dict(facts) for node, facts in graph.output_facts.items()} == {
        "fetch": {"output.lines": ("lines",), "output.items[0].name": ("items", 0, "name")},
        "start": {"output.x": ("x",)},
    }


def test_a_whole_input_or_output_may_be_a_fact() -> None:
    graph = validate_graph(document(when="exists(output) and exists(input)"))
    assert graph.input_facts == (("input", ()),)
    assert graph.output_facts == {"fetch": (("output", ()),)}
    assert extract_facts({}, graph.input_facts) == {"input": {"$kind": "object"}}
