from typing import Any

import pytest

from pyoco_protocol.workflows.document import WorkflowDocument, document_of
from pyoco_protocol.workflows.scan import scan

WHOLE = """\
version: 1
flow:
  graph: |
    extract >> pipe(store)
  defaults: {day: monday, sizes: [1, 2]}
tasks:
  extract:
    callable: etl.tasks:extract
    inputs:
      day: $ctx.params.day
      home: $env.HOME
      price: 5
    outputs: [results.rows, scratch.a.b]
  load:
    use: warehouse_load
    inputs: {rows: $node.extract.output.rows.0}
pipes:
  store: load
runtime:
  expose_env: [HOME]
"""


def read(text: str) -> WorkflowDocument:
    document, problems = document_of(scan(text))
    assert problems == []
    assert document is not None
    return document


def faults(text: str) -> list[tuple[str, str, int | None]]:
    """Return code, location and line of each problem."""
    _, problems = document_of(scan(text))
    return [(problem.code, problem.where, problem.line) for problem in problems]


def task(**fields: Any) -> str:
    return f"flow: {{graph: a}}\ntasks:\n  a: {fields!r}\n"


def test_a_complete_file_is_read() -> None:
    document = read(WHOLE)
    assert document.graph.value == "extract >> pipe(store)\n"
    assert document.defaults == {"day": "monday", "sizes": [1, 2]}
    assert document.tasks["extract"].callable == "etl.tasks:extract"
    assert document.tasks["extract"].outputs == ("results.rows", "scratch.a.b")
    assert document.tasks["load"].use == "warehouse_load"
    assert document.pipes["store"].value == "load"


def test_a_position_in_a_graph_has_a_line_in_the_file() -> None:
    graph = read("flow:\n  graph: |\n    a\n    >> b\ntasks: {a: {use: x}, b: {use: x}}\n").graph
    assert (graph.line_of(0), graph.line_of(graph.value.index("b"))) == (3, 4)
    short = read("flow: {graph: a}\ntasks: {a: {use: x}}").graph
    assert short.line_of(0) == 1


def test_a_minimal_workflow_is_read() -> None:
    document = read("flow: {graph: a}\ntasks: {a: {callable: 'm:f'}}")
    assert (document.defaults, document.pipes) == ({}, {})
    assert document.tasks["a"].inputs == {}


def test_a_file_of_an_earlier_version_is_read() -> None:
    document = read(
        """\
version: '1'
flow:
  graph: a
  defaults:
tasks:
  a:
    callable: m:f
    inputs:
    outputs: [a, results.b]
  b:
    use: x
    outputs:
"""
    )
    assert document.defaults == {}
    assert document.tasks["a"].inputs == {}
    # The engine has always ignored a plain name.
    assert document.tasks["a"].outputs == ("results.b",)
    assert document.tasks["b"].outputs == ()


def test_unknown_and_forbidden_keys_are_reported_with_their_lines() -> None:
    text = """\
flow:
  graph: a
  name: mine
tasks:
  a:
    callable: m:f
    retries: 3
flows: {}
discovery: {}
extra: 1
runtime:
  memory: 1
"""
    assert faults(text) == [
        ("schema.unknown_key", "flow.name", 3),
        ("schema.unknown_key", "tasks.a.retries", 7),
        ("schema.forbidden_key", "flows", 8),
        ("schema.forbidden_key", "discovery", 9),
        ("schema.unknown_key", "extra", 10),
        ("schema.unknown_key", "runtime.memory", 12),
    ]


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("[]", "schema.type", "workflow"),
        ("flow: {graph: a}", "schema.missing_key", "tasks"),
        ("tasks: {a: {use: x}}", "schema.missing_key", "flow"),
        ("flow: {}\ntasks: {a: {use: x}}", "schema.missing_key", "flow.graph"),
        ("flow: {graph: [a]}\ntasks: {a: {use: x}}", "schema.type", "flow.graph"),
        ("flow: {graph: 5}\ntasks: {a: {use: x}}", "schema.type", "flow.graph"),
        ("flow: {graph: ' '}\ntasks: {a: {use: x}}", "schema.value", "flow.graph"),
        ("flow: {graph: a, defaults: [1]}\ntasks: {a: {use: x}}", "schema.type", "flow.defaults"),
        ("flow: {graph: a}\ntasks: ", "schema.type", "tasks"),
        ("flow: {graph: a}\ntasks: {}", "schema.value", "tasks"),
        ("flow: {graph: a}\ntasks: {a: }", "schema.type", "tasks.a"),
        ("flow: {graph: a}\ntasks: {a-b: {use: x}}", "schema.name", "tasks.'a-b'"),
        ("flow: {graph: a}\ntasks: {a: {}}", "schema.task", "tasks.a"),
        (task(callable="m:f", use="x"), "schema.task", "tasks.a"),
        (task(callable="f"), "schema.callable", "tasks.a.callable"),
        (task(callable="m:C.method"), "schema.callable", "tasks.a.callable"),
        (task(callable="../m:f"), "schema.callable", "tasks.a.callable"),
        (task(callable="m:f:g"), "schema.callable", "tasks.a.callable"),
        (task(callable="m:" + "f" * 600), "schema.callable", "tasks.a.callable"),
        (task(callable=5), "schema.type", "tasks.a.callable"),
        (task(use=""), "schema.value", "tasks.a.use"),
        (task(use="x", inputs=[1]), "schema.type", "tasks.a.inputs"),
        (task(use="x", inputs={"p": "$5.00"}), "schema.reference", "tasks.a.inputs.p"),
        (task(use="x", inputs={"p": "$ctx.loop.item"}), "schema.reference", "tasks.a.inputs.p"),
        (
            task(use="x", inputs={"p": "$node.a.output.__class__"}),
            "schema.reference",
            "tasks.a.inputs.p",
        ),
        (task(use="x", outputs="results.x"), "schema.type", "tasks.a.outputs"),
        (task(use="x", outputs=["nowhere.x"]), "schema.output", "tasks.a.outputs"),
        (task(use="x", outputs=["params.__class__"]), "schema.output", "tasks.a.outputs"),
        (task(use="x", outputs=["params"]), "schema.output", "tasks.a.outputs"),
        ("version: '2'\nflow: {graph: a}\ntasks: {a: {use: x}}", "schema.value", "version"),
        (task(use="x", outputs=[1]), "schema.type", "tasks.a.outputs"),
        ("version: 2\nflow: {graph: a}\ntasks: {a: {use: x}}", "schema.value", "version"),
        ("version: true\nflow: {graph: a}\ntasks: {a: {use: x}}", "schema.value", "version"),
        ("flow: {graph: a}\ntasks: {a: {use: x}}\npipes: [1]", "schema.type", "pipes"),
        ("flow: {graph: a}\ntasks: {a: {use: x}}\npipes: {p: 1}", "schema.type", "pipes.p"),
        ("flow: {graph: a}\ntasks: {a: {use: x}}\nruntime: 1", "schema.type", "runtime"),
        (
            "flow: {graph: a}\ntasks: {a: {use: x}}\nruntime: {expose_env: A}",
            "schema.type",
            "runtime.expose_env",
        ),
    ],
)
def test_a_violation_of_the_schema_is_reported_with_its_location(
    text: str, code: str, where: str
) -> None:
    assert (code, where) in [(found[0], found[1]) for found in faults(text)]
