"""Each field of a graph document at its limits, and beyond them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyoco_protocol.graphs.problems import GraphInvalidError
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_testkit.graph_documents import JsonObject, edges_of, forked, line

Build = Callable[[Any], JsonObject]


def problems_of(document: Any) -> list[tuple[str, str]]:
    """Return code and place of each problem."""
    try:
        validate_graph(document)
    except GraphInvalidError as error:
        return [(problem.code, problem.where) for problem in error.problems]
    return []


def header(name: str) -> Build:
    return lambda value: line(**{name: value})


def task(name: str) -> Build:
    return lambda value: line({"id": "t", "type": "Task", name: value})


def run(name: str) -> Build:
    return lambda value: task("run")({"flow": "f", name: value})


def retry(name: str) -> Build:
    return lambda value: task("retry")({name: value})


def backoff(name: str) -> Build:
    return lambda value: retry("backoff")({name: value})


def wait(name: str, **others: Any) -> Build:
    return lambda value: line({"id": "w", "type": "Wait", "wait": {name: value, **others}})


def join(**fields: Any) -> JsonObject:
    return forked({"id": "a", "type": "Task"}, {"id": "b", "type": "Task"}, **fields)


def end(kind: str, name: str) -> Build:
    def build(value: Any) -> JsonObject:
        document = line({"id": "t", "type": "Task"})
        document["nodes"].append({"id": "bad", "type": kind, name: value})
        document["edges"].insert(1, {"from": "t", "to": "bad", "when": "output.bad"})
        return document

    return build


def condition(value: Any) -> JsonObject:
    document = line()
    document["edges"][0]["when"] = value
    return document


def node_id(value: Any) -> JsonObject:
    document = line()
    document["nodes"][1]["id"] = document["edges"][0]["to"] = value
    return document


def node_type(value: Any) -> JsonObject:
    document = line({"id": "t", "type": "Task"})
    document["nodes"][1]["type"] = value
    return document


def nested(depth: int) -> Any:
    """Return lists in each other so that the document has `depth` levels."""
    value: Any = []
    for _ in range(depth - 6):
        value = [value]
    return task("run")({"flow": "f", "params": {"deep": value}})


def branches(count: int) -> JsonObject:
    """Return a graph with as many edges as nodes, or more."""
    ids = [f"n{i}" for i in range(count)]
    nodes = [{"id": each, "type": "Task"} for each in ids]
    nodes[0]["type"], nodes[-1]["type"] = "Start", "Success"
    return {"nodes": nodes, "edges": edges_of(*ids)}


def edges(count: int) -> JsonObject:
    """Return a graph of 1,000 nodes with `count` edges."""
    document = branches(1_000)
    for i in range(count - 999):
        # Each node also has conditional edges to the next but one, and to the third next.
        source, step = i % 995, 2 + i // 995
        extra = {"from": f"n{source}", "to": f"n{source + step}", "when": "input.x"}
        document["edges"].insert(0, extra)
    return document


@dataclass(frozen=True)
class Field:
    """A field: how to build a document with it, and values of both kinds."""

    name: str
    build: Build
    where: str
    good: list[Any]
    bad: list[Any]
    code: str = "FIELD_INVALID"
    # Values that are bad, with the place of the problem.
    inside: list[tuple[Any, str, str]] = field(default_factory=list)


def text(low: int, high: int) -> tuple[list[Any], list[Any]]:
    """Return good and bad texts for a range of lengths."""
    good = ["x" * low, "x" * (low + 1), "作" * high]
    return good, [*(["x" * (low - 1)] if low else []), "x" * (high + 1), 5, True, [], {}]


def number(low: float, high: float, *, is_whole: bool) -> tuple[list[Any], list[Any]]:
    """Return good and bad numbers for a range."""
    step = 1 if is_whole else 0.001
    good: list[Any] = [low, low + step, high - step, high]
    bad: list[Any] = [low - step, high + step, "1", True, [], {}]
    if is_whole:
        bad.append(low + 0.5)
    return good, bad


SECONDS = number(1, 31_536_000, is_whole=False)
TAGS = (["cpu", "x" * 64, "a_b-C9"], ["", "x" * 65, "a b", "a.b", "ü", 5])
TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"]
FIELDS = [
    Field("title", header("title"), "title", *text(0, 200)),
    Field("deadlineSec", header("deadlineSec"), "deadlineSec", *SECONDS),
    Field(
        "inputSchema",
        header("inputSchema"),
        "inputSchema",
        [{}, {"required": ["a"]}, {"properties": {"a": {"type": "string"}}}],
        ["string", [], 5, True],
        inside=[
            ({"required": "a"}, "inputSchema.required", "FIELD_INVALID"),
            ({"required": [5]}, "inputSchema.required[0]", "FIELD_INVALID"),
            ({"type": "object"}, "inputSchema.type", "FIELD_UNKNOWN"),
            ({"properties": {"a": {}}}, "inputSchema.properties.a.type", "FIELD_MISSING"),
            (
                {"properties": {"a": {"type": "string", "minLength": 1}}},
                "inputSchema.properties.a.minLength",
                "FIELD_UNKNOWN",
            ),
        ],
    ),
    Field(
        "inputSchema type",
        lambda value: line(inputSchema={"properties": {"a": {"type": value}}}),
        "inputSchema.properties.a.type",
        [*TYPES, ["string", "null"], TYPES],
        [[], 5, {}, [*TYPES, "null"]],
        inside=[
            ("text", "inputSchema.properties.a.type[0]", "FIELD_INVALID"),
            (["string", "text"], "inputSchema.properties.a.type[1]", "FIELD_INVALID"),
        ],
    ),
    Field("nodes", branches, "nodes", [2, 3, 999, 1_000], [1_001]),
    Field("edges", edges, "edges", [999, 1_999, 2_000], [2_001]),
    Field(
        "node id",
        node_id,
        "nodes[1].id",
        ["a", "A", "_", "a-b_9", "x" * 40],
        ["", "9a", "-a", "a b", "a.b", "ä", "x" * 41, "a\n"],
    ),
    Field(
        "node type",
        node_type,
        "nodes[1].type",
        ["Task", "Wait"],
        ["task", "", "Subgraph", 5, None, ["Task"]],
    ),
    Field("node title", task("title"), "nodes[1].title", *text(0, 200)),
    Field(
        "onFailure",
        task("onFailure"),
        "nodes[1].onFailure",
        ["fail", "continue", "contain"],
        ["FAIL", "ignore", "", 5],
    ),
    Field(
        "run",
        task("run"),
        "nodes[1].run",
        [{"flow": "f"}, None],
        ["f", [], 5],
        inside=[
            ({}, "nodes[1].run.flow", "FIELD_MISSING"),
            ({"flow": "f", "queue": "q"}, "nodes[1].run.queue", "FIELD_UNKNOWN"),
        ],
    ),
    Field(
        "run.flow",
        lambda value: task("run")({"flow": value}),
        "nodes[1].run.flow",
        ["f", "daily report", "日次"],
        ["", "a\nb", 5, None],
    ),
    Field("run.tag", run("tag"), "nodes[1].run.tag", *TAGS),
    Field(
        "run.params",
        run("params"),
        "nodes[1].run.params",
        [{}, {"a": None}, {"a": "x" * (65_536 - 8)}],
        ["a", [], 5, {"a": "x" * (65_536 - 7)}],
    ),
    Field(
        "run.labels",
        run("labels"),
        "nodes[1].run.labels",
        [[], ["a"], [f"l{i}" for i in range(10)]],
        ["a", {}, [f"l{i}" for i in range(11)]],
        inside=[([5], "nodes[1].run.labels[0]", "FIELD_INVALID")],
    ),
    Field("timeoutSec", task("timeoutSec"), "nodes[1].timeoutSec", *SECONDS),
    Field(
        "retry.maxAttempts",
        retry("maxAttempts"),
        "nodes[1].retry.maxAttempts",
        *number(1, 20, is_whole=True),
    ),
    Field(
        "retry.nonRetryable",
        retry("nonRetryable"),
        "nodes[1].retry.nonRetryable",
        [[], ["x" * 64], ["A"] * 50],
        ["A", ["A"] * 51],
        inside=[
            (["x" * 65], "nodes[1].retry.nonRetryable[0]", "FIELD_INVALID"),
            ([""], "nodes[1].retry.nonRetryable[0]", "FIELD_INVALID"),
        ],
    ),
    *(
        Field(
            f"backoff.{name}",
            backoff(name),
            f"nodes[1].retry.backoff.{name}",
            *number(low, high, is_whole=False),
        )
        for name, low, high in (
            ("initialSec", 0, 86_400),
            ("factor", 1, 10),
            ("maxSec", 1, 86_400),
            ("jitter", 0, 1),
        )
    ),
    Field("wait.key", wait("key"), "nodes[1].wait.key", *text(0, 200)),
    Field(
        "wait.prompt",
        wait("prompt"),
        "nodes[1].wait.prompt",
        [{}, {"a": [1, None, "x"]}, {"a": "x" * (16_384 - 8)}],
        ["a", [], 5, {"a": "x" * (16_384 - 7)}],
    ),
    Field(
        "wait.approvals",
        wait("approvals"),
        "nodes[1].wait.approvals",
        *number(1, 20, is_whole=True),
    ),
    Field(
        "wait.approvers",
        wait("approvers"),
        "nodes[1].wait.approvers",
        [["ann"], [f"a{i}" for i in range(100)]],
        ["ann", 5, {}, [f"a{i}" for i in range(101)]],
        inside=[
            ([5], "nodes[1].wait.approvers[0]", "FIELD_INVALID"),
            ([""], "nodes[1].wait.approvers[0]", "FIELD_INVALID"),
        ],
    ),
    Field("wait.timeoutSec", wait("timeoutSec"), "nodes[1].wait.timeoutSec", *SECONDS),
    Field(
        "wait.onTimeout",
        wait("onTimeout"),
        "nodes[1].wait.onTimeout",
        ["fail", "resume"],
        ["go", 5],
    ),
    Field(
        "policy",
        lambda value: join(policy=value),
        "nodes[1].policy",
        ["ALL_SUCCESS", "ANY_SUCCESS", "ALL_DONE"],
        ["all_success", "", 5],
        inside=[("CUSTOM", "nodes[1].minSuccess", "FIELD_MISSING")],
    ),
    Field(
        "minSuccess",
        lambda value: join(policy="CUSTOM", minSuccess=value),
        "nodes[1].minSuccess",
        [0, 1, 2],
        [-1, 101, 1.5, "1", True],
    ),
    Field(
        "maxFail",
        lambda value: join(policy="CUSTOM", maxFail=value),
        "nodes[1].maxFail",
        [0, 1, 100],
        [-1, 101, 1.5, "1", True],
    ),
    Field(
        "minSuccess with another policy",
        lambda value: join(policy="ALL_DONE", minSuccess=value),
        "nodes[1].minSuccess",
        [None],
        [0, 1],
    ),
    Field(
        "maxFail with another policy",
        lambda value: join(maxFail=value),
        "nodes[1].maxFail",
        [None],
        [0, 1],
    ),
    Field(
        "losers",
        lambda value: join(losers=value),
        "nodes[1].losers",
        ["cancel", "letRun"],
        ["letrun", "", 5],
    ),
    Field(
        "error.code",
        lambda value: end("Failed", "error")({"code": value}),
        "nodes[3].error.code",
        *text(1, 64),
    ),
    Field(
        "error.message",
        lambda value: end("Failed", "error")({"code": "X", "message": value}),
        "nodes[3].error.message",
        *text(0, 500),
    ),
    Field("reason", end("Canceled", "reason"), "nodes[3].reason", *text(0, 200)),
    Field(
        "when",
        condition,
        "edges[0].when",
        ["input.x", "input." + "x" * 994, None],
        ["input." + "x" * 995, 5, True, []],
    ),
    Field("nesting", nested, "document", [63, 64], [65, 66, 500]),
]


def _named(each: Field, value: Any) -> str:
    """Return the name of a case: the field, and the beginning and length of the value."""
    shown = str(value)
    return f"{each.name} {shown[:20]}{len(shown)}"


GOOD = [pytest.param(each, value, id=_named(each, value)) for each in FIELDS for value in each.good]
BAD = [
    pytest.param(each, value, each.where, each.code, id=_named(each, value))
    for each in FIELDS
    for value in each.bad
] + [
    pytest.param(each, value, where, code, id=f"{_named(each, value)} in {where}")
    for each in FIELDS
    for value, where, code in each.inside
]


@pytest.mark.parametrize(("each", "value"), GOOD)
def test_a_field_is_accepted_up_to_its_limit(each: Field, value: Any) -> None:
    assert problems_of(each.build(value)) == []


@pytest.mark.parametrize(("each", "value", "where", "code"), BAD)
def test_a_field_is_refused_beyond_its_limit_and_the_problem_says_where(
    each: Field, value: Any, where: str, code: str
) -> None:
    assert (code, where) in problems_of(each.build(value))
