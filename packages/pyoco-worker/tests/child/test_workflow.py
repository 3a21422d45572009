"""Workflow files in a child: the functions they call are found and checked."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_worker.child.callable_policy import CallablePolicy
from pyoco_worker.child.engine import EngineRun
from pyoco_worker.child.frames import Finished, RunOrder

MODULE = """\
import functools
import threading
from os import system
from subprocess import check_output as run
from pyoco import task

trace_file = {trace_file!r}

def add(x, y=0):
    return x + y

@task
def wrapped(add):
    return add * 2

later = functools.partial(add, y=100)
through = functools.partial(system)
number = 5

def fail():
    raise SystemExit("enough")

def one():
    return 1

def total(**others):
    return sum(others.values())

gate = threading.Barrier(2)

def meet():
    return gate.wait(timeout=20) < 2

release = threading.Event()

def wait_for_release():
    return release.wait(timeout=20)

def set_release():
    release.set()
    return "released"
"""

BOTH = {"add": "user_tasks:add", "wrapped": "user_tasks:wrapped"}


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    return tmp_path / "trace_file"


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "user_tasks.py").write_text(
        MODULE.format(trace_file=str(trace_file)), encoding="utf-8"
    )
    touching = f"open({str(trace_file)!r}, 'w').close()\ndef function(): pass\n"
    (folder / "touches_at_import.py").write_text(touching, encoding="utf-8")
    (folder / "breaks_at_import.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield
    for name in ("user_tasks", "touches_at_import", "breaks_at_import"):
        sys.modules.pop(name, None)


def file(graph: str = "only", defaults: Any = None, **tasks: Any) -> str:
    flow = {"graph": graph, "defaults": defaults or {}}
    described = {
        name: {"callable": task} if isinstance(task, str) else task for name, task in tasks.items()
    }
    return json.dumps({"flow": flow, "tasks": described})


def execute(
    text: str, *, allow: tuple[str, ...] | None = None, params: dict[str, Any] | None = None
) -> Finished:
    order = RunOrder(
        run_id=new_run_id(),
        attempt=1,
        flow_name="file",
        params=params or {},
        workflow_yaml=text,
    )
    run = EngineRun(order, max_record_bytes=100_000, send=lambda _: None)

    def resolve(flow_name: str) -> object:
        raise AssertionError("a run with a workflow file needs no resolver")

    return run.execute(resolve, CallablePolicy(allow))


def outputs(finished: Finished) -> dict[str, Any]:
    assert finished.how == "succeeded", finished.error
    return {name: record.output for name, record in finished.records.items()}


def test_params_override_the_defaults_of_a_file() -> None:
    text = file(
        "add >> wrapped", {"x": 1, "y": 2}, add="user_tasks:add", wrapped="user_tasks:wrapped"
    )
    assert outputs(execute(text)) == {"add": 3, "wrapped": 6}
    assert outputs(execute(text, params={"x": 10})) == {"add": 12, "wrapped": 24}


def test_inputs_and_names_of_steps_reach_the_functions() -> None:
    add = {"callable": "user_tasks:add", "inputs": {"x": 5}}
    again = {"callable": "user_tasks:later", "inputs": {"x": "$node.first.output"}}
    finished = execute(file("first: add >> again", add=add, again=again))
    assert outputs(finished) == {"first": 5, "again": 105}


def test_a_file_can_be_run_repeatedly() -> None:
    text = file(
        "repeat(count=2){ add } >> wrapped",
        {"x": 1},
        add="user_tasks:add",
        wrapped="user_tasks:wrapped",
    )
    assert [outputs(execute(text))["wrapped"] for _ in range(3)] == [2, 2, 2]


def summed(*steps: str) -> dict[str, Any]:
    inputs = {step: f"$node.{step}.output" for step in steps}
    return {"callable": "user_tasks:total", "inputs": inputs}


@pytest.mark.parametrize(
    "graph",
    [
        "(a & b) >> both >> after",
        "(a & b) >> both\nboth >> after",
        "b >> both; a >> both; both >> after",
        "flow >> (a & b) >> both\nflow >> after",
    ],
)
def test_a_graph_in_operator_form_runs_each_step_after_those_it_waits_for(graph: str) -> None:
    one = "user_tasks:one"
    text = file(graph, a=one, b=one, both=summed("a", "b"), after=summed("a", "b", "both"))
    finished = execute(text)
    assert outputs(finished) == {"a": 1, "b": 1, "both": 2, "after": 4}
    assert finished.result == {"after": 4}


def test_parallel_steps_run_at_the_same_time() -> None:
    finished = execute(file("a & b", a="user_tasks:meet", b="user_tasks:meet"))
    assert outputs(finished) == {"a": True, "b": True}
    assert finished.result == {"a": True, "b": True}


def test_a_step_after_alternatives_starts_when_one_of_them_has_ended() -> None:
    # `slow` ends only after `then` has run.
    text = file(
        "(quick | slow) >> then",
        quick="user_tasks:one",
        slow="user_tasks:wait_for_release",
        then="user_tasks:set_release",
    )
    assert outputs(execute(text)) == {"quick": 1, "slow": True, "then": "released"}


def test_a_task_that_a_graph_in_operator_form_does_not_use_is_not_imported(
    trace_file: Path,
) -> None:
    one = "user_tasks:one"
    text = file("a & b", a=one, b=one, idle="touches_at_import:function")
    assert outputs(execute(text)) == {"a": 1, "b": 1}
    assert not trace_file.exists()


def test_a_plain_name_under_outputs_has_no_effect() -> None:
    one = {"callable": "user_tasks:one", "outputs": ["y", "add"]}
    add = {"callable": "user_tasks:add", "inputs": {"x": 5}}
    assert outputs(execute(file("one >> add", one=one, add=add)))["add"] == 5


def test_a_task_that_the_graph_does_not_use_is_not_imported(trace_file: Path) -> None:
    text = file("add", {"x": 1}, add="user_tasks:add", idle="touches_at_import:function")
    assert outputs(execute(text)) == {"add": 1}
    assert not trace_file.exists()


@pytest.mark.parametrize(
    "callable_",
    ["os:system", "posix:system", "subprocess:run", "builtins:exec", "importlib:import_module"],
)
def test_a_module_that_is_not_allowed_is_refused_before_any_import(
    callable_: str, trace_file: Path
) -> None:
    text = file("first >> only", first="touches_at_import:function", only=callable_)
    finished = execute(text)
    assert finished.how == "callable_refused"
    assert f"task only (line 1) calls {callable_}" in (finished.error or "")
    assert not trace_file.exists()


@pytest.mark.parametrize("name", ["system", "run", "through", "functools"])
def test_a_forbidden_function_imported_by_an_allowed_module_is_refused(
    name: str, trace_file: Path
) -> None:
    finished = execute(file(only=f"user_tasks:{name}", defaults={"command": f"touch {trace_file}"}))
    assert finished.how in ("callable_refused", "failed")
    assert finished.tasks == {}
    assert not trace_file.exists()


def test_only_listed_modules_are_allowed(trace_file: Path) -> None:
    text = file("add", {"x": 1}, add="user_tasks:add")
    assert execute(text, allow=("user_tasks",)).how == "succeeded"
    assert execute(text, allow=("user",)).how == "callable_refused"
    through = file(only="user_tasks:system", defaults={"command": f"touch {trace_file}"})
    assert execute(through, allow=("user_tasks",)).how == "callable_refused"
    assert not trace_file.exists()
    assert execute(through, allow=("user_tasks", "posix")).how == "succeeded"
    assert trace_file.exists()


@pytest.mark.parametrize(
    ("callable_", "expected"),
    [
        ("no_such_module:f", "the module no_such_module cannot be imported on this worker"),
        ("user_tasks.inner:f", "cannot be imported"),
        ("user_tasks:nothing", "has no nothing"),
        ("user_tasks:number", "cannot be called"),
        ("breaks_at_import:f", "ZeroDivisionError"),
        ("user_tasks:fail", "SystemExit: enough"),
    ],
)
def test_a_function_that_is_missing_or_raises_fails_the_run(callable_: str, expected: str) -> None:
    finished = execute(file(only=callable_))
    assert finished.how == "failed"
    assert expected in (finished.error or "")


def test_a_plug_in_that_is_not_installed_fails_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    finished = execute(file(only={"use": "no_such_plug_in"}))
    assert finished.how == "failed"
    assert "no_such_plug_in" in (finished.error or "")
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "nested deeper"),
        ("", "is empty"),
        ("flow: !!python/object/apply:os.system [id]", "tags"),
        ("flow: {graph: a}\ntasks: {a: {callable: 'm:f', retries: 1}}", "tasks.a.retries (line 2)"),
        (file('until(cond="9**9**9 > $ctx.n"){only}', only="user_tasks:add"), "`**`"),
        (file("""until(cond="'a' * 3000000000 == $ctx.n"){only}""", only="user_tasks:add"), "`*`"),
        (file("""until(cond="'%02000000000d' % $ctx.n"){only}""", only="user_tasks:add"), "`%`"),
        (file("only >> other >> only", only="m:f", other="m:f"), "twice"),
        (file("only >> other\nother >> only", only="m:f", other="m:f"), "flow.graph (line 1)"),
    ],
    ids=["brackets", "empty", "tag", "key", "power", "text", "format", "twice", "cycle"],
)
def test_an_invalid_file_fails_the_run_with_its_errors(text: str, expected: str) -> None:
    finished = execute(text)
    assert finished.how == "workflow_invalid"
    assert expected in (finished.error or "")
