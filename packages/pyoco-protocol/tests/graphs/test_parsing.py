"""Graph documents in JSON and YAML: the same values, and the same refusals."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_protocol.graphs.compiled import graph_hash
from pyoco_protocol.graphs.parsing import parse_json, parse_yaml
from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, edges_of
from pyoco_testkit.graph_strategies import graph_documents

# The example of the specification.
INTAKE_YAML = """
title: Order intake
deadlineSec: 86400
inputSchema: {required: [orderId], properties: {orderId: {type: string}, total: {type: number}}}
nodes:
  - {id: start, type: Start}
  - {id: fetch, type: Task, run: {flow: fetch_order, tag: cpu, params: {order: "${input.orderId}"}},
     timeoutSec: 120, retry: {maxAttempts: 3, nonRetryable: [NOT_FOUND]}}
  - {id: approve, type: Wait, wait: {key: "order-${input.orderId}",
     prompt: {text: "Ship ${nodes.fetch.output.lines}?"}, approvals: 2, approvers: [ann, bob, cho],
     timeoutSec: 172800}}
  - {id: ship, type: Task}
  - {id: done, type: Success}
  - {id: rejected, type: Failed, error: {code: TOO_SMALL, message: nothing to ship}}
edges: [{from: start, to: fetch},
        {from: fetch, to: approve, when: "output.lines >= 1 and input.total < 1e6"},
        {from: fetch, to: rejected}, {from: approve, to: ship}, {from: ship, to: done}]
"""


def problem_of(parse: Any, data: bytes) -> str:
    with pytest.raises(GraphInvalidError) as refused:
        parse(data)
    first = refused.value.problems[0]
    assert (first.code, first.where) == ("FIELD_INVALID", "document")
    return first.message


def test_the_example_of_the_specification_is_valid() -> None:
    graph = validate_graph(parse_yaml(INTAKE_YAML.encode()))
    assert graph.order == ("start", "fetch", "approve", "ship", "done", "rejected")
    assert graph.has_approvals


@settings(max_examples=200)
@given(graph_documents())
def test_the_same_document_has_the_same_hash_in_json_and_yaml(document: JsonObject) -> None:
    indented = json.dumps(document, indent=2).encode()
    reordered = json.dumps(document, sort_keys=True, ensure_ascii=False).encode()
    # Every JSON text of one line is YAML too.
    for value in (parse_json(indented), parse_json(reordered), parse_yaml(reordered)):
        assert value == document
        assert graph_hash(value) == validate_graph(document).hash


def test_a_document_in_block_style_has_the_hash_of_its_json() -> None:
    value = parse_yaml(INTAKE_YAML.encode())
    assert graph_hash(parse_json(json.dumps(value).encode())) == graph_hash(value)


@pytest.mark.parametrize(
    "other",
    [
        {"nodes": []},
        {"nodes": [], "edges": [], "title": None},
        {"nodes": [], "edges": [1]},
        {"nodes": [], "edges": [1.5]},
    ],
)
def test_another_document_has_another_hash(other: JsonObject) -> None:
    assert graph_hash(other) != graph_hash({"nodes": [], "edges": []})


def test_defaults_are_not_filled_in_before_hashing() -> None:
    document: JsonObject = {
        "nodes": [{"id": "a", "type": "Start"}, {"id": "b", "type": "Success"}],
        "edges": edges_of("a", "b"),
    }
    spelled_out = {**document, "title": None}
    assert validate_graph(document).hash != validate_graph(spelled_out).hash
    assert validate_graph(spelled_out).source == spelled_out


SCALARS = """
- 1
- 1.0
- 1e6
- -0.5
- "1"
- 'yes'
- true
- null
- ~
- 0x1F
- |
  two
  lines
"""


def test_scalars_are_those_of_yaml_1_2() -> None:
    assert parse_yaml(SCALARS.encode()) == [
        *(1, 1.0, 1e6, -0.5, "1", "yes", True, None, None, 31, "two\nlines\n"),
    ]


@pytest.mark.parametrize("text", ["yes", "on", "2026-11-18", "12:30:45", "1_000"])
def test_a_scalar_that_means_something_else_in_yaml_1_1_needs_quotes(text: str) -> None:
    assert "quote it" in problem_of(parse_yaml, f"a: {text}".encode())
    assert parse_yaml(f"a: '{text}'".encode()) == {"a": text}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: &x 1\nb: *x", "anchor"),
        ("a: *x", "alias"),
        ("a: !!str 5", "tag"),
        ("a: !python/object:os.system x", "tag"),
        ("a: 1\na: 2", "also in line 1"),
        ("{a: 1, 'a': 2}", "also in line 1"),
        ("<<: {a: 1}", "merge"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("%YAML 1.1\n---\na: 1", "directive"),
        ("a: [1", "not YAML"),
        ("1: a", "not text"),
        ("a: .nan", ""),
        ("a: .inf", ""),
        ("", "empty"),
        ("a: \x00", ""),
    ],
)
def test_yaml_that_json_does_not_have_is_refused(text: str, what: str) -> None:
    assert what in problem_of(parse_yaml, text.encode())


def test_the_problem_of_a_yaml_text_says_in_which_line() -> None:
    assert problem_of(parse_yaml, b"a: 1\nb: *x\n").startswith("line 2: ")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 1, "a": 1}', "'a' occurs twice"),
        (b'[{"a": {"b": 1, "c": 2, "b": 3}}]', "'b' occurs twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"9" * 5_000, "an integer has 5000 characters, which is too many"),
        (b'{"a": Infinity}', "Infinity is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * 100_000, "deeper than 64"),
    ],
)
def test_a_text_that_is_no_json_is_refused(text: bytes, what: str) -> None:
    assert what in problem_of(parse_json, text)


def test_the_problem_of_a_json_text_says_where_it_is() -> None:
    assert "line 2, column 5" in problem_of(parse_json, b'{\n"a" 1}')


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_a_text_may_begin_with_a_byte_order_mark(parse: Any) -> None:
    assert parse(b'\xef\xbb\xbf{"a": "\xc3\xa9"}') == {"a": "é"}


@settings(max_examples=500)
@given(
    st.binary(max_size=60)
    | st.text(alphabet="{}[]:,\"'a1-&*!|>#\n \\", max_size=60).map(str.encode)
)
def test_any_bytes_are_a_value_or_a_problem(data: bytes) -> None:
    for parse in (parse_json, parse_yaml):
        # Any other error fails the test.
        with suppress(GraphInvalidError):
            parse(data)


def largest() -> JsonObject:
    """Return a graph with as many nodes and edges as there may be, and with all kinds of fields."""
    ids = [f"t{i}" for i in range(998)]
    nodes: list[JsonObject] = [{"id": "start", "type": "Start"}, {"id": "done", "type": "Success"}]
    nodes += [
        {
            "id": each,
            "type": "Task",
            "run": {"flow": "f", "tag": "t", "params": {"a": "${input.a}"}},
            "retry": {"maxAttempts": 3, "backoff": {"initialSec": 1}},
        }
        for each in ids
    ]
    edges = edges_of("start", *ids, "done")
    for i in range(995):
        edges[i + 1]["when"] = "input.a"
        edges.append({"from": ids[i], "to": "done"})
    return {"nodes": nodes, "edges": edges}


def test_the_largest_graph_can_be_written_in_yaml() -> None:
    document = largest()
    assert len(document["edges"]) > 1_990
    text = json.dumps(document)
    assert validate_graph(parse_yaml(text.encode())).hash == validate_graph(document).hash


def test_a_yaml_text_of_very_many_values_is_refused() -> None:
    assert "100000 values" in problem_of(parse_yaml, b"[" + b"1," * 100_001 + b"]")
