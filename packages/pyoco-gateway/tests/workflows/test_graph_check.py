"""Graphs checked with the engine's own parser, which executes nothing."""

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyoco_gateway.workflows.graph_check import graph_language
from pyoco_protocol.workflows import document, graph_rules, operators, scan
from pyoco_protocol.workflows.graph_rules import Workflow, read_workflow
from pyoco_protocol.workflows.problems import WorkflowInvalidError, WorkflowProblem

PAGE = Path(__file__).parents[4] / "docs" / "workflows.md"
NAMES = [f"t{number}" for number in range(6)]


def workflow(graph: str, *, tasks: Any = ("a", "b", "c"), **pipes: str) -> str:
    """Return a file with this graph; JSON is YAML too."""
    described = {name: {"callable": "m:f"} for name in tasks}
    return json.dumps({"flow": {"graph": graph}, "tasks": described, "pipes": pipes})


def read(text: str) -> Workflow:
    return read_workflow(text, graph_language())


def error_codes(text: str) -> list[str]:
    with pytest.raises(WorkflowInvalidError) as refused:
        read(text)
    return [problem.code for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("graph", "used"),
    [
        ("a", {"a"}),
        ("a >> b >> c", {"a", "b", "c"}),
        ("a >> again: a", {"a"}),
        ("a # a comment\n>> b", {"a", "b"}),
        ("switch(on=mode) { x: a; default: b }", {"a", "b"}),
        ("switch(on=mode) { x: a >> c; default: b >> c }", {"a", "b", "c"}),
        ("repeat(count=3) { a >> b }", {"a", "b"}),
        ('foreach(over="params.items", item=it) { a }', {"a"}),
        ('until(cond="$ctx.results.n > 3", max_iter=5) { a }', {"a"}),
        ("a >> pipe(rest)", {"a", "b", "c"}),
        ("a & b", {"a", "b"}),
        ("(a | b) >> c", {"a", "b", "c"}),
        ("a >> (b & c)", {"a", "b", "c"}),
        ("a >> b\na >> c", {"a", "b", "c"}),
        ("flow >> a >> b", {"a", "b"}),
    ],
)
def test_a_valid_graph_returns_the_tasks_it_uses(graph: str, used: set[str]) -> None:
    assert read(workflow(graph, rest="b >> c")).used == used


@pytest.mark.parametrize(
    ("graph", "code"),
    [
        ("a >>", "graph.syntax"),
        ("a > b", "graph.syntax"),
        ("a & b &", "graph.syntax"),
        ("a & pipe(rest)", "graph.syntax"),
        ("a(1)", "graph.syntax"),
        ("a & missing", "graph.undefined_task"),
        ("a >> b\nb >> a", "graph.cycle"),
        ("((a & b) | c) >> d", "graph.invalid"),
        ("(" * 33 + "a" + ")" * 33, "graph.too_deep"),
        ("a & b #" + "#" * 70_000, "graph.too_large"),
        ("a >> missing", "graph.undefined_task"),
        ("a >> pipe(missing)", "graph.undefined_pipe"),
        ("a >> b >> a", "graph.repeated_task"),
        ("a >> a: b", "graph.repeated_task"),
        ("repeat(count=2){a} >> x: a >> x: b", "graph.invalid"),
        ("repeat(count=9999999999){a}", "graph.iterations"),
        ("until(cond=x, max_iter=1000001){a}", "graph.iterations"),
        ("until(cond=x, max_iter=0){a}", "graph.invalid"),
        ("repeat(count=²){a}", "graph.expression"),
        ("repeat(count=2, collect=sum){a}", "graph.invalid"),
        ("switch(on=x){}", "graph.invalid"),
        ("repeat(count=2){" * 33 + "a" + "}" * 33, "graph.too_deep"),
        ("repeat(count=2){" * 3_000 + "a" + "}" * 3_000, "graph.too_deep"),
        (" >> ".join(f"n{number}: a" for number in range(2_001)), "graph.too_large"),
        ("a #" + "#" * 70_000, "graph.too_large"),
        ('until(cond="$ctx.a == ' + "1 + " * 400 + '1"){a}', "graph.expression"),
        ("switch(on=x){ " + "9" * 5_000 + ": a }", "graph.invalid"),
    ],
)
def test_an_invalid_graph_is_refused(graph: str, code: str) -> None:
    assert code in error_codes(workflow(graph))


def test_the_largest_allowed_graph_is_accepted() -> None:
    graph = " >> ".join(f"n{number}: a" for number in range(operators.MAX_STEPS))
    assert read(workflow(graph)).used == {"a"}


def test_cyclic_multiplying_and_deep_pipes_are_refused() -> None:
    assert error_codes(workflow("pipe(p)", p="a >> pipe(q)", q="b >> pipe(p)")) == [
        "graph.pipe_circle"
    ]
    doubling = {f"p{n}": f"pipe(p{n + 1}) >> pipe(p{n + 1})" for n in range(15)}
    assert error_codes(workflow("pipe(p0)", **doubling, p15="repeat(count=2){a}")) == [
        "graph.too_large"
    ]
    deep = {f"p{n}": f"pipe(p{n + 1})" for n in range(100)}
    assert error_codes(workflow("pipe(p0)", **deep, p100="a")) == ["graph.pipe_depth"]
    padded = {"p": "repeat(count=2){a} " + "#" * 50_000}
    again = " >> ".join(["pipe(p)"] * 500)
    assert error_codes(workflow(again, **padded)) == ["graph.too_large"]


def test_all_errors_of_schema_and_graph_are_reported_with_their_lines() -> None:
    text = """\
flow:
  graph: |
    a >> nowhere
    >> until(cond="$ctx.n > 9**9**8") { a }
  colour: red
tasks:
  a:
    callable: m:f
    retries: 3
"""
    with pytest.raises(WorkflowInvalidError) as refused:
        read(text)
    assert [(problem.code, problem.line) for problem in refused.value.problems] == [
        ("schema.unknown_key", 5),
        ("schema.unknown_key", 9),
        ("graph.undefined_task", 3),
        ("graph.expression", 4),
    ]


def test_errors_of_a_graph_in_operator_form_have_their_lines() -> None:
    text = """\
flow:
  graph: |
    (a & nowhere) >> b

    b >> c
    (c | elsewhere) >> a
tasks:
  a: {use: x}
  b: {use: x}
  c: {use: x}
"""
    with pytest.raises(WorkflowInvalidError) as refused:
        read(text)
    assert [(problem.code, problem.line) for problem in refused.value.problems] == [
        ("graph.cycle", 6)
    ]
    with pytest.raises(WorkflowInvalidError) as refused:
        read(text.replace(" >> a\n", "\n"))
    assert [(problem.code, problem.line) for problem in refused.value.problems] == [
        ("graph.undefined_task", 3),
        ("graph.undefined_task", 6),
    ]


ESCAPES = [
    "__import__('os').system('touch {canary}')",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: open('{canary}', 'w'))()",
    "[open('{canary}', 'w') for _ in 'x']",
    'f\'{{open("{canary}", "w")}}\'',
    "(x := open('{canary}', 'w'))",
    'exec(\'open("{canary}", "w")\')',
    'eval(\'open("{canary}", "w")\')',
    "compile('1', '', 'eval')",
    "getattr($ctx, 'params')",
    "$ctx.__class__",
    "$ctx.loop.__class__.__init__.__globals__",
    "$ctx.params.__class__.__mro__",
    "$ctx._results",
    "$ctx.a.__getattribute__",
    "$env.__class__",
    "$ctx.a[0]",
    "$ctx.a()",
    "$ctx.a.b()",
    "$ctx.a('x')",
    "_ctx('a')",
    "_env('HOME')",
    "$ctx.a if open('{canary}', 'w') else 1",
    "$ctx.a or open('{canary}', 'w')",
    "$ctx.a, open('{canary}', 'w')",
    "{{'x': $ctx.a}}",
    "{{$ctx.a}}",
    "[*$ctx.a]",
    "await $ctx.a",
    "yield $ctx.a",
    "$ctx.a; open('{canary}', 'w')",
    "$ctx.a\nopen('{canary}', 'w')",
    "$ctx.a #\n",
    "9**9**9 > $ctx.a",
    "$ctx.a ** $ctx.a",
    "$ctx.a * * 2",
    "$ctx.a << 999999999",
    "1 << 999999999",
    "$ctx.a == '\\x5f\\x5fclass\\x5f\\x5f'",
    "$ctx.a == b'x'",
    "$ctx.a == ...",
    "$ctx.a == 1_0",
    "$ctx.a == 1j",
    "$ctx.a == 1e999",
    "$ctx.a is 1",
    "$ctx.a == r'x'",
    "$ctx.a == ''.join('x')",
    "$ctx.a:=1",
    "{{{{ __import__('os') }}}}",
    "params.__class__",
    "results.a.__globals__",
]


@pytest.mark.parametrize("form", ["until(cond={}){{a}}", "switch(on={}){{x: a}}"])
@pytest.mark.parametrize("payload", ESCAPES)
def test_no_expression_is_executed(payload: str, form: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    expression = payload.format(canary=canary).replace("\\", "\\\\").replace('"', '\\"')
    graph = form.format(f'"{expression}"')
    assert set(error_codes(workflow(graph))) <= {
        "graph.expression",
        "graph.syntax",
        "graph.invalid",
    }
    assert not canary.exists()


@pytest.mark.parametrize("payload", ESCAPES)
def test_no_graph_is_executed(payload: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    text = payload.format(canary=canary)
    graphs = (text, f"a >> {text}", f"repeat(count={text}){{a}}", f"pipe({text})")
    for graph in (*graphs, f"a & {text}", f"a\n{text}", f"(a)\n{text}\n"):
        assert error_codes(workflow(graph))
    assert error_codes(workflow("pipe(p)", p=text))
    assert not canary.exists()


def test_checking_a_file_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    read(workflow("a >> b"))
    error_codes(workflow("a >> missing >> until(cond=\"1if $ctx.a else'\\d'\"){a}"))
    assert capfd.readouterr() == ("", "")


def linear(names: list[str]) -> str:
    return " >> ".join(names)


GRAPHS = st.recursive(
    st.permutations(NAMES).flatmap(
        lambda names: st.integers(1, len(names)).map(lambda count: linear(names[:count]))
    ),
    lambda inner: st.one_of(
        inner.map(lambda body: f"repeat(count=2) {{ {body} }}"),
        inner.map(lambda body: f'until(cond="$ctx.params.n > 3", max_iter=2) {{ {body} }}'),
        st.tuples(inner, inner).map(
            lambda both: f"switch(on=mode) {{ x: {both[0]}; default: {both[1]} }}"
        ),
    ),
    max_leaves=5,
)


@given(GRAPHS)
def test_a_well_formed_graph_is_never_refused(graph: str) -> None:
    used = read(workflow(graph, tasks=NAMES)).used
    assert used == set(re.findall(r"\bt[0-9]\b", graph))


WORDS = st.sampled_from(
    [
        *("a", "b", ">>", ">", ":", "(", ")", "{", "}", "switch", "repeat", "until", "foreach"),
        *("on=", "count=", "cond=", "over=", '"$ctx.a"', "'x'", "3", "pipe", "default", ";", ","),
        *("{{", "}}", "#", "\n", "\\", "²", "é", '"', "=", "__class__", "&", "|", "flow"),
    ]
)


CHAINS = st.permutations(NAMES).flatmap(
    lambda names: st.integers(2, len(names)).map(lambda count: names[:count])
)


@given(CHAINS)
def test_a_chain_means_the_same_in_both_languages(names: list[str]) -> None:
    assert read(workflow(linear(names), tasks=NAMES)).steps is None
    flow: Any = graph_language().build(linear(names), names, {})
    engine = {task.name: {each.name for each in task.dependencies} for task in flow.tasks}
    steps = read(workflow(f"({linear(names)})", tasks=NAMES)).steps
    assert steps is not None
    assert {name: set(steps.after.get(name, ())) for name in steps.positions} == engine


@settings(max_examples=500)
@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=60))
def test_any_text_is_accepted_or_refused_as_a_graph(graph: str) -> None:
    problems: tuple[WorkflowProblem, ...] = ()
    try:
        read(workflow(graph, p="b"))
    except WorkflowInvalidError as refused:
        problems = refused.problems
    assert all(problem.line for problem in problems)


HOSTILE: list[Callable[[], str]] = [
    lambda: workflow(" >> ".join(["a"] * 13_000)),
    lambda: workflow("{" * 60_000),
    lambda: workflow("'" * 60_000),
    lambda: workflow("{{" + "x" * 60_000),
    lambda: workflow('switch(on=x){a: "' + "\\\\" * 20_000 + '"}'),
    lambda: workflow(
        " >> ".join(f"pipe(p{n})" for n in range(2_000)), **{f"p{n}": "a" for n in range(2_000)}
    ),
    lambda: workflow("a", tasks=[f"t{n}" for n in range(4_000)]),
    lambda: workflow(" >> ".join(f'until(cond="$ctx.a == {n}"){{a}}' for n in range(1_500))),
]


@pytest.mark.parametrize("make", HOSTILE)
def test_no_graph_takes_long_to_check(make: Callable[[], str]) -> None:
    text = make()
    started = time.perf_counter()
    with contextlib.suppress(WorkflowInvalidError):
        read(text)
    # The limit for the whole HTTP request under load is one second.
    assert time.perf_counter() - started < 1.0


def test_the_example_in_the_documentation_is_valid() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert read(example[1]).used == {"extract", "check", "load", "report"}


def test_the_documentation_lists_every_error_code_and_limit() -> None:
    page = PAGE.read_text(encoding="utf-8")
    modules = (scan, document, graph_rules, operators)
    sources = [Path(module.__file__ or "").read_text() for module in modules]
    codes = set(re.findall(r'"((?:yaml|schema|graph)\.[a-z_]+)"', "".join(sources)))
    assert codes == set(re.findall(r"`((?:yaml|schema|graph)\.[a-z_]+)`", page))
    for limit in (scan.MAX_DEPTH, scan.MAX_NODES, operators.MAX_STEPS, operators.MAX_NESTING):
        assert re.search(rf"\b{limit}\b", page)
    for limit in (
        graph_rules.MAX_GRAPH_CHARS,
        graph_rules.MAX_ITERATIONS,
        operators.MAX_CONNECTIONS,
    ):
        assert re.search(rf"\b{limit}\b", page)
