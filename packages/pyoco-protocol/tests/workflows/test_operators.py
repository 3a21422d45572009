"""Graphs in operator form: parallel steps, alternatives, statements."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_protocol.workflows.operators import (
    MAX_CONNECTIONS,
    MAX_NESTING,
    MAX_STEPS,
    GraphFaultError,
    StepGraph,
    is_operator_form,
    parse_operators,
)

TASKS = frozenset("abcdefx")


def edges(text: str) -> str:
    """Return the steps that wait, as `c(ab)`; `c(a|b)` waits for one of them."""
    steps = parse_operators(text, TASKS)
    return " ".join(
        f"{step}({('|' if step in steps.any_of else '').join(sorted(before))})"
        for step, before in sorted(steps.after.items())
    )


def parsed(text: str) -> StepGraph | GraphFaultError:
    try:
        return parse_operators(text, TASKS)
    except GraphFaultError as refused:
        return refused


def fault(text: str) -> GraphFaultError:
    found = parsed(text)
    assert isinstance(found, GraphFaultError)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a >> b >> c", "b(a) c(b)"),
        ("a & b", ""),
        ("a | b", ""),
        ("(a)", ""),
        ("(a & b) >> c", "c(ab)"),
        ("(a | b) >> c", "c(a|b)"),
        ("a >> (b & c) >> d", "b(a) c(a) d(bc)"),
        ("a >> (b | c) >> d", "b(a) c(a) d(b|c)"),
        ("(a & b) >> (c & d)", "c(ab) d(ab)"),
        ("(a | b) >> (c & d)", "c(a|b) d(a|b)"),
        ("(a & b) >> (c | d) >> x", "c(ab) d(ab) x(c|d)"),
        ("(a & b & c) >> d", "d(abc)"),
        ("(a | b | c) >> d", "d(a|b|c)"),
        ("((a | b) | c) >> d", "d(a|b|c)"),
        ("(c & (a >> b)) >> d", "b(a) d(bc)"),
        ("(a & b) >> (c >> d)", "c(ab) d(c)"),
        ("(a >> b) >> (c >> d)", "b(a) c(b) d(c)"),
    ],
)
def test_groups_connect_all_their_last_steps_to_all_first_steps(text: str, expected: str) -> None:
    assert edges(text) == expected


def test_operators_bind_like_in_python() -> None:
    assert edges("a & b >> c") == edges("a & (b >> c)") == "c(b)"
    assert edges("(a | b & c >> d) & x") == edges("(a | (b & (c >> d))) & x") == "d(c)"


@pytest.mark.parametrize(
    "text",
    [
        "a >> b\nb >> c",
        "a >> b; b >> c",
        "\n\na >> b  # first\n\n# second\nb >> c;\n",
        "b >> c\na >> b",
        "a >> b\\\n  >> c",
        "a\n>> b >>\nc",
        "(\n  a >> b\n\n) >> c",
        "a >> b >> c\na >> b",
    ],
)
def test_statements_add_up_and_end_at_line_breaks_and_semicolons(text: str) -> None:
    assert edges(text) == "b(a) c(b)"


def test_a_step_after_alternatives_starts_after_one_of_all_steps_before_it() -> None:
    assert edges("(a | b) >> c\nd >> c") == "c(a|b|d)"


def test_statements_of_the_flow_follow_each_other() -> None:
    assert edges("flow >> a >> (b & c) >> d") == "b(a) c(a) d(bc)"
    assert edges("flow >> a >> b\nflow >> c") == "b(a) c(b)"
    assert edges("flow >> (a & b)\nflow >> c") == "c(ab)"
    steps = parse_operators("flow >> a\na & flow", {"flow", "a"})
    assert steps.after == {"a": ("flow",)}


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("a &", "graph.syntax", 3),
        ("& a", "graph.syntax", 0),
        ("a & & b", "graph.syntax", 4),
        ("(a & b", "graph.syntax", 0),
        ("a & b)", "graph.syntax", 5),
        ("()", "graph.syntax", 1),
        (";", "graph.syntax", 1),
        ("a\n(b c)", "graph.syntax", 5),
        ("a & b c", "graph.syntax", 6),
        ("a & b > c", "graph.syntax", 6),
        ("a & pipe(b)", "graph.syntax", 8),
        ("a & x: b", "graph.syntax", 5),
        ("x = a\na & b", "graph.syntax", 2),
        ("a & b\nimport os", "graph.syntax", 13),
        ("a & é", "graph.syntax", 4),
        ("flow & a", "graph.syntax", 5),
        ("a >> flow; b", "graph.syntax", 5),
        ("(flow >> a)", "graph.syntax", 1),
        ("((a & b) | c) >> d", "graph.invalid", 14),
        ("((a | b) & c) >> d", "graph.invalid", 14),
        ("a\nb >> b", "graph.cycle", 4),
        ("(a & b) >> a", "graph.cycle", 8),
        ("a >> b\nb >> c\nc >> a\nc >> d", "graph.cycle", 16),
        ("(a | b) >> c; c >> b", "graph.cycle", 16),
    ],
)
def test_an_invalid_graph_is_refused_with_its_position(text: str, code: str, at: int) -> None:
    found = fault(text)
    assert (found.code, found.position) == (code, at)


def test_a_cycle_is_shown() -> None:
    assert "a >> b >> c >> a" in str(fault("a >> b\nb >> c\nc >> a\nc >> d"))


def named(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_the_limits_of_steps_connections_and_nesting_are_exact() -> None:
    assert len(parse_operators(" & ".join(named(MAX_STEPS)), ()).positions) == MAX_STEPS
    assert fault(" & ".join(named(MAX_STEPS + 1))).code == "graph.too_large"
    group = "(" + " & ".join(named(MAX_CONNECTIONS // 10)) + ") >> ("
    most = group + " & ".join("abcdefghij") + ")"
    assert len(parse_operators(most, ()).after) == 10
    assert fault(most + "; a >> b").code == "graph.too_large"
    assert parse_operators("(" * MAX_NESTING + "a" + ")" * MAX_NESTING, ()).positions
    assert fault("(" * (MAX_NESTING + 1)).code == "graph.too_deep"


@pytest.mark.parametrize(
    "text",
    [
        "a & b",
        "(a | b) >> c",
        "(a >> b) >> c",
        "a >> (b)",
        "a\nb",
        "a >> b # then\n\n  c",
        "a; b",
        "a >> b\n(c >> d)",
        "flow >> a",
        "a >> \\\nb",
        'a & switch(on="x") { y: b }',
    ],
)
def test_operators_and_statements_select_the_operator_form(text: str) -> None:
    assert is_operator_form(text, TASKS)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a >> b >> c",
        "a\n>> b >>\nc",
        "a >> pipe(b)",
        "a >> b # not c & d; (e)\n",
        'switch(on="$ctx.a | (b); c & d") { x: a; default: b }',
        "repeat(count={{ a & b }}) { a\n >> b }",
        "x: a\n>> y: b",
        "a(1)",
    ],
)
def test_chains_and_terms_of_the_engine_do_not(text: str) -> None:
    assert not is_operator_form(text, TASKS)


def test_a_task_named_flow_is_a_task() -> None:
    assert not is_operator_form("flow >> a", {"flow", "a"})


def depth_first(steps: StepGraph) -> list[str]:
    order: list[str] = []
    left = dict(steps.after)
    while len(order) < len(steps.positions):
        ready = [
            step
            for step in steps.positions
            if step not in order and set(left.get(step, ())) <= set(order)
        ]
        assert ready
        order += ready
    return order


WORDS = st.sampled_from(
    ["a", "b", "c", "d", ">>", "&", "|", "(", ")", ";", "\n", "flow", "#", "\\"]
)


@settings(max_examples=1000)
@given(st.lists(WORDS, max_size=20).map(" ".join) | st.text(max_size=60))
def test_any_text_becomes_a_graph_without_cycles_or_a_fault_inside_the_text(text: str) -> None:
    is_operator_form(text, TASKS)
    steps = parsed(text)
    if isinstance(steps, GraphFaultError):
        assert 0 <= steps.position <= len(text)
        return
    assert set(depth_first(steps)) == set(steps.positions) != set()
    assert all(text.startswith(step, position) for step, position in steps.positions.items())


GROUPS = st.recursive(
    st.sampled_from("abcdef"),
    lambda inner: st.tuples(inner, st.sampled_from(["&", ">>"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=6,
)


@given(GROUPS, GROUPS)
def test_a_chain_of_two_groups_makes_the_second_wait_for_the_first(first: str, then: str) -> None:
    then = then.translate(str.maketrans("abcdef", "uvwxyz"))
    steps = parsed(f"{first} >> {then}")
    if isinstance(steps, GraphFaultError):
        assert steps.code == "graph.cycle"
        return
    order = depth_first(steps)
    assert max(order.index(step) for step in first if step.isalpha()) < min(
        order.index(step) for step in then if step.isalpha()
    )


HOSTILE: list[Callable[[], str]] = [
    lambda: "(" * 65_536,
    lambda: "a&" * 32_768,
    lambda: "a;" * 32_768,
    lambda: "\n" * 65_536 + "&",
    lambda: "a" + "\n" * 65_000 + ">> b & c",
    lambda: "'\\" * 32_768,
    lambda: "'\\'" * 20_000 + "\\",
    lambda: "{{" * 32_768,
    lambda: "#" * 65_536,
    lambda: "# &\n" * 16_384,
    lambda: " ( " * 20_000,
    lambda: "flow\n" * 13_000,
    lambda: "(a&b)>>" * 9_000 + "c",
    lambda: f"({'&'.join(named(1_000))})>>({'|'.join(named(1_000))})",
    lambda: ";".join(f"n{n}>>n{n + 1}" for n in range(1_999)) + ";n1999>>n0",
]


@pytest.mark.parametrize("make", HOSTILE)
def test_no_text_takes_long_to_parse(make: Callable[[], str]) -> None:
    text = make()
    started = time.process_time()
    is_operator_form(text, TASKS)
    parsed(text)
    assert time.process_time() - started < 1.0
