"""The problems of graphs: one test for each code, and all problems of a document at once."""

from typing import Any

import pytest

from pyoco_protocol.graphs.problems import MAX_PROBLEMS
from pyoco_testkit.graph_documents import JsonObject, edges_of, forked, line
from pyoco_testkit.graph_problems import A, B, but, places_of, problems_of, sized, when

DONE: JsonObject = {"id": "done2", "type": "Success"}


def without(document: JsonObject, *ids: str) -> JsonObject:
    """Return the document without some nodes and their edges."""
    return {
        **document,
        "nodes": [each for each in document["nodes"] if each["id"] not in ids],
        "edges": [each for each in document["edges"] if not {each["from"], each["to"]} & {*ids}],
    }


def wide(count: int, kind: str) -> JsonObject:
    """Return a graph with a Fork or a Join of `count` branches."""
    branches = [{"id": f"b{i}", "type": "Task"} for i in range(count)]
    document = forked(*branches)
    if kind == "Fork":
        document["nodes"][1] = {"id": "join", "type": "Task"}
    else:
        document["nodes"][2] = {"id": "fork", "type": "Task"}
        for edge in document["edges"][1:-2]:
            if edge["from"] == "fork":
                edge["when"] = "input.x"
    return document


def wait(**fields: Any) -> JsonObject:
    return line({"id": "w", "type": "Wait", "wait": fields})


def with_facts(*texts: str, of_source: int, of_input: int) -> JsonObject:
    """Return a document with a condition on an output, and a prompt with input and these texts."""
    shown = [f"${{input.f{i}}}" for i in range(of_input)]
    document = line(A, {"id": "w", "type": "Wait", "wait": {"prompt": {"a": [*shown, *texts]}}})
    return when(document, " or ".join(f"output.f{i}" for i in range(of_source)), edge=1)


def with_params(text: str) -> JsonObject:
    return line(A, {"id": "b", "type": "Task", "run": {"flow": "f", "params": {"p": [text]}}})


CYCLE = but(line(A, B), edges=edges_of("b", "a"))

ROWS: dict[str, tuple[str, JsonObject, str]] = {
    "FIELD_UNKNOWN": ("FIELD_UNKNOWN", line(colour="red"), "colour"),
    "FIELD_UNKNOWN of another type of node": (
        "FIELD_UNKNOWN",
        line({"id": "w", "type": "Wait", "run": {"flow": "f"}}),
        "nodes[1].run",
    ),
    "FIELD_INVALID": ("FIELD_INVALID", line(deadlineSec=0), "deadlineSec"),
    "FIELD_INVALID node": ("FIELD_INVALID", but(line(), 5), "nodes[2]"),  # type: ignore[arg-type] # no object
    "FIELD_INVALID edge": ("FIELD_INVALID", but(line(), edges=["x"]), "edges[1]"),  # type: ignore[list-item] # no object
    "FIELD_INVALID nodes": ("FIELD_INVALID", {**line(), "nodes": {}}, "nodes"),
    "FIELD_MISSING": ("FIELD_MISSING", {"nodes": line()["nodes"]}, "edges"),
    "FIELD_MISSING nodes": ("FIELD_MISSING", {"edges": line()["edges"]}, "nodes"),
    "FIELD_MISSING type": ("FIELD_MISSING", but(line(), {"id": "x"}), "nodes[2].type"),
    "FIELD_MISSING id": ("FIELD_MISSING", but(line(), {"type": "Task"}), "nodes[2].id"),
    "FIELD_MISSING from": ("FIELD_MISSING", but(line(), edges=[{"to": "done"}]), "edges[1].from"),
    "NODE_DUPLICATE": ("NODE_DUPLICATE", but(line(A), A), "nodes[3].id"),
    "EDGE_DUPLICATE": ("EDGE_DUPLICATE", but(line(A), edges=edges_of("a", "done")), "edges[2]"),
    "EDGE_UNKNOWN_NODE from": (
        "EDGE_UNKNOWN_NODE",
        but(line(A), edges=edges_of("x", "done")),
        "edges[2].from",
    ),
    "EDGE_UNKNOWN_NODE to": (
        "EDGE_UNKNOWN_NODE",
        but(line(A), edges=edges_of("a", "x")),
        "edges[2].to",
    ),
    "START_COUNT none": ("START_COUNT", but(without(line(A, B), "start")), "nodes"),
    "START_COUNT two": (
        "START_COUNT",
        but(line(A), {"id": "s", "type": "Start"}, edges=edges_of("s", "a")),
        "nodes",
    ),
    "START_HAS_INCOMING": (
        "START_HAS_INCOMING",
        but(line(A), edges=edges_of("a", "start")),
        "nodes[0]",
    ),
    "END_MISSING": (
        "END_MISSING",
        but(without(line(A), "done"), {"id": "x", "type": "Failed"}, edges=edges_of("a", "x")),
        "nodes",
    ),
    **{
        f"END_HAS_OUTGOING {kind}": (
            "END_HAS_OUTGOING",
            but(
                when(line(A), "input.x", edge=1),
                {"id": "x", "type": kind},
                edges=[*edges_of("a", "x"), *edges_of("x", "done")],
            ),
            "nodes[3]",
        )
        for kind in ("Success", "Failed", "Canceled")
    },
    "SINK_NOT_END": ("SINK_NOT_END", but(line(A), B, edges=edges_of("a", "b")), "nodes[3]"),
    "CYCLE": ("CYCLE", CYCLE, "edges"),
    "UNREACHABLE": ("UNREACHABLE", but(line(A), B, edges=edges_of("b", "done")), "nodes[3]"),
    "FORK_DEGREE one": ("FORK_DEGREE", line({"id": "f", "type": "Fork"}), "nodes[1]"),
    "FORK_DEGREE 101": ("FORK_DEGREE", wide(101, "Fork"), "nodes[2]"),
    "JOIN_DEGREE one": ("JOIN_DEGREE", line({"id": "j", "type": "Join"}), "nodes[1]"),
    "JOIN_DEGREE 101": ("JOIN_DEGREE", wide(101, "Join"), "nodes[1]"),
    "CHOICE_ORDER": ("CHOICE_ORDER", but(line(A), DONE, edges=edges_of("a", "done2")), "nodes[1]"),
    "CONDITION_SYNTAX": ("CONDITION_SYNTAX", when(line(A), "input."), "edges[0].when"),
    "TEMPLATE_SYNTAX in params": (
        "TEMPLATE_SYNTAX",
        with_params("a ${b}"),
        "nodes[2].run.params.p[0]",
    ),
    "TEMPLATE_SYNTAX in a key": ("TEMPLATE_SYNTAX", wait(key="${input.a"), "nodes[1].wait.key"),
    "TEMPLATE_SYNTAX in a prompt": (
        "TEMPLATE_SYNTAX",
        wait(prompt={"a": {"b": ["${}"]}}),
        "nodes[1].wait.prompt.a.b[0]",
    ),
    "REF_UNKNOWN_NODE in a condition": (
        "REF_UNKNOWN_NODE",
        when(line(A), "nodes.x.status == 'FAILED'", edge=1),
        "edges[1].when",
    ),
    "REF_UNKNOWN_NODE in params": (
        "REF_UNKNOWN_NODE",
        with_params("${nodes.x.output.a}"),
        "nodes[2].run.params.p[0]",
    ),
    "REF_UNKNOWN_NODE in a key": (
        "REF_UNKNOWN_NODE",
        wait(key="${nodes.x.status}"),
        "nodes[1].wait.key",
    ),
    "REF_NOT_ANCESTOR in a condition": (
        "REF_NOT_ANCESTOR",
        when(line(A, B), "nodes.b.output.x", edge=1),
        "edges[1].when",
    ),
    "REF_NOT_ANCESTOR beside": (
        "REF_NOT_ANCESTOR",
        when(forked(A, B), "nodes.b.output.x", edge=2),
        "edges[2].when",
    ),
    "REF_NOT_ANCESTOR of itself in params": (
        "REF_NOT_ANCESTOR",
        with_params("${nodes.b.output.x}"),
        "nodes[2].run.params.p[0]",
    ),
    "REF_NOT_ANCESTOR in a prompt": (
        "REF_NOT_ANCESTOR",
        wait(prompt={"a": "${nodes.done.status}"}),
        "nodes[1].wait.prompt.a",
    ),
    "CUSTOM_IMPOSSIBLE": (
        "CUSTOM_IMPOSSIBLE",
        forked(A, B, policy="CUSTOM", minSuccess=3),
        "nodes[1].minSuccess",
    ),
    "APPROVERS_TOO_FEW": (
        "APPROVERS_TOO_FEW",
        wait(approvals=2, approvers=["ann"]),
        "nodes[1].wait.approvers",
    ),
    "APPROVERS_TOO_FEW none": (
        "APPROVERS_TOO_FEW",
        wait(approvers=[]),
        "nodes[1].wait.approvers",
    ),
    "APPROVERS_TOO_FEW the same twice": (
        "APPROVERS_TOO_FEW",
        wait(approvals=2, approvers=["ann", "ann"]),
        "nodes[1].wait.approvers",
    ),
    "FACTS_TOO_MANY": (
        "FACTS_TOO_MANY",
        wait(prompt={"a": [f"${{input.f{i}}}" for i in range(101)]}),
        "document",
    ),
    "FACTS_TOO_MANY of the source of an edge": (
        "FACTS_TOO_MANY",
        with_facts(of_source=51, of_input=50),
        "document",
    ),
    "GRAPH_TOO_HEAVY document": ("GRAPH_TOO_HEAVY", sized(262_145), "document"),
    "GRAPH_TOO_HEAVY weight": (
        "GRAPH_TOO_HEAVY",
        wait(prompt={"a": ["${input.f}"] * 456}),
        "document",
    ),
}
CODES = {
    *("FIELD_UNKNOWN", "FIELD_INVALID", "FIELD_MISSING", "NODE_DUPLICATE", "EDGE_DUPLICATE"),
    *("EDGE_UNKNOWN_NODE", "START_COUNT", "START_HAS_INCOMING", "END_MISSING", "END_HAS_OUTGOING"),
    *("SINK_NOT_END", "CYCLE", "UNREACHABLE", "FORK_DEGREE", "JOIN_DEGREE", "CHOICE_ORDER"),
    *("CONDITION_SYNTAX", "TEMPLATE_SYNTAX", "REF_UNKNOWN_NODE", "REF_NOT_ANCESTOR"),
    *("CUSTOM_IMPOSSIBLE", "APPROVERS_TOO_FEW", "FACTS_TOO_MANY", "GRAPH_TOO_HEAVY"),
}


@pytest.mark.parametrize(("code", "document", "where"), ROWS.values(), ids=ROWS)
def test_each_problem_has_its_code_and_its_place(
    code: str, document: JsonObject, where: str
) -> None:
    assert (code, where) in places_of(document)


def test_there_is_a_row_for_each_code() -> None:
    assert {code for code, _, _ in ROWS.values()} == CODES


GOOD: dict[str, JsonObject] = {
    "a Fork of 2 branches": wide(2, "Fork"),
    "a Fork of 100 branches": wide(100, "Fork"),
    "a Join of 100 branches": wide(100, "Join"),
    "as many approvers as approvals": wait(approvals=2, approvers=["ann", "bob"]),
    "one approver": wait(approvers=["ann"]),
    "all branches must succeed": forked(A, B, policy="CUSTOM", minSuccess=2),
    "100 facts": wait(prompt={"a": [f"${{input.f{i}}}" for i in range(100)]}),
    "100 facts, one of them by two names": with_facts(
        "${nodes.a.output.f0}", of_source=50, of_input=50
    ),
    "101 values in params": line(
        {
            "id": "a",
            "type": "Task",
            "run": {"flow": "f", "params": {"p": [f"${{input.f{i}}}" for i in range(101)]}},
        }
    ),
    "one fact very often": wait(prompt={"a": ["${input.f}"] * 400}),
    "262,144 bytes": sized(262_144),
    "a condition on the last edge": when(line(A), "input.x", edge=1),
    "a condition reads the source of its edge": when(line(A), "nodes.a.output.x", edge=1),
    "a condition reads an ancestor": when(line(A, B), "nodes.a.error.code == 'X'", edge=2),
    "params read an ancestor": with_params("${nodes.a.output.x}"),
    "params name the execution": with_params("${execution.id} ${node.attempt ?? 1}"),
    "statuses are no facts": but(
        line(A),
        *({"id": f"x{i}", "type": "Success"} for i in range(101)),
        edges=[],
    )
    | {
        "edges": [
            *edges_of("start", "a"),
            *({"from": "a", "to": f"x{i}", "when": f"error.code == '{i}'"} for i in range(101)),
            *edges_of("a", "done"),
        ]
    },
}


@pytest.mark.parametrize("document", GOOD.values(), ids=GOOD)
def test_what_is_just_within_a_limit_is_valid(document: JsonObject) -> None:
    assert problems_of(document) == []


def test_each_repeated_edge_names_the_first_one() -> None:
    document = but(line(A), edges=edges_of("start", "a") * 2)
    found = [(each.where, each.message) for each in problems_of(document)]
    message = "repeats edges[0]; join their conditions with or"
    assert found == [("edges[2]", message), ("edges[3]", message)]


@pytest.mark.parametrize("kind", ["Fork", "Join"])
def test_a_repeated_edge_is_no_branch(kind: str) -> None:
    document = wide(100, kind)
    again = {"from": "fork", "to": "b0"} if kind == "Fork" else {"from": "b0", "to": "join"}
    assert {each.code for each in problems_of(but(document, edges=[again]))} == {"EDGE_DUPLICATE"}


def test_the_problem_of_a_cycle_names_its_nodes() -> None:
    (problem,) = [each for each in problems_of(CYCLE) if each.code == "CYCLE"]
    assert problem.message == "the edges form a cycle: b -> a -> b"


@pytest.mark.parametrize(
    ("text", "position"), [("input.a ==", 11), ("input.a = 1", 9), ("(input.a", 9), ("'a", 1)]
)
def test_the_problem_of_a_condition_says_at_which_character(text: str, position: int) -> None:
    (problem,) = problems_of(when(line(A), text))
    assert problem.message.endswith(f"(at character {position})")


def test_the_problem_of_a_template_says_at_which_character() -> None:
    (problem,) = problems_of(wait(key="order ${inputs}"))
    assert problem.message.endswith("(at character 9)")


def ten_faults() -> JsonObject:
    return {
        "title": "x" * 201,
        "colour": "red",
        "nodes": [
            {"id": "start", "type": "Start"},
            {"id": "start2", "type": "Start"},
            {"id": "a", "type": "Task", "retry": {"maxAttempts": 21}},
            {"id": "a", "type": "Task"},
            {"id": "w", "type": "Wait", "wait": {"approvals": 2, "approvers": ["ann"]}},
            {"id": "f", "type": "Fork"},
            {"id": "bad", "type": "Failed"},
        ],
        "edges": [
            {"from": "start", "to": "a"},
            {"from": "start2", "to": "a", "when": "input."},
            {"from": "a", "to": "w", "when": "nodes.ghost.output.x"},
            {"from": "w", "to": "nowhere"},
            {"from": "w", "to": "f"},
            {"from": "f", "to": "bad"},
            {"from": "bad", "to": "a", "if": "x"},
        ],
    }


def test_all_problems_of_a_document_are_reported_at_once() -> None:
    assert places_of(ten_faults()) == [
        ("FIELD_UNKNOWN", "colour"),
        ("CYCLE", "edges"),
        ("CONDITION_SYNTAX", "edges[1].when"),
        ("REF_UNKNOWN_NODE", "edges[2].when"),
        ("EDGE_UNKNOWN_NODE", "edges[3].to"),
        ("FIELD_UNKNOWN", "edges[6].if"),
        ("START_COUNT", "nodes"),
        ("FIELD_INVALID", "nodes[2].retry.maxAttempts"),
        ("NODE_DUPLICATE", "nodes[3].id"),
        ("CHOICE_ORDER", "nodes[4]"),
        ("APPROVERS_TOO_FEW", "nodes[4].wait.approvers"),
        ("FORK_DEGREE", "nodes[5]"),
        ("END_HAS_OUTGOING", "nodes[6]"),
        ("FIELD_INVALID", "title"),
    ]


def test_problems_are_in_the_order_of_the_document() -> None:
    nodes = [{"id": f"t{i}", "type": "Task", "title": 5} for i in range(12)]
    assert [each.where for each in problems_of(line(*nodes))] == [
        f"nodes[{i}].title" for i in range(1, 13)
    ]


def test_no_more_than_100_problems_are_reported() -> None:
    nodes = [{"id": f"t{i}", "type": "Task", "colour": 5} for i in range(150)]
    assert len(problems_of(line(*nodes))) == MAX_PROBLEMS == 100
