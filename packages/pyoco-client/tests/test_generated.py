"""`_sync` is `_async` without `await`."""

import ast
import importlib.util
import inspect
import io
import tokenize
from pathlib import Path
from types import ModuleType

import pytest

import pyoco_client
from pyoco_client._async import executions, graphs, handle, operations, runs, waits
from pyoco_client._sync import executions as sync_executions
from pyoco_client._sync import graphs as sync_graphs
from pyoco_client._sync import handle as sync_handle
from pyoco_client._sync import operations as sync_operations
from pyoco_client._sync import runs as sync_runs
from pyoco_client._sync import waits as sync_waits

PROJECT = Path(__file__).parents[1]
WRITTEN = sorted((PROJECT / "src/pyoco_client/_async").glob("*.py"))


def generator() -> ModuleType:
    path = PROJECT / "tools/generate_sync.py"
    spec = importlib.util.spec_from_file_location("generate_sync", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.stem))
def test_the_generated_module_equals_the_output_of_the_generator(path: Path) -> None:
    expected = generator().as_sync(path.read_text(encoding="utf-8"))
    generated = (path.parents[1] / "_sync" / path.name).read_text(encoding="utf-8")
    # Formatting differs because lines get shorter, so the syntax trees are compared.
    assert ast.dump(ast.parse(generated)) == ast.dump(ast.parse(expected))
    assert comments(generated) == comments(expected)


def test_sync_has_exactly_the_modules_of_async() -> None:
    names = {path.name for path in (PROJECT / "src/pyoco_client/_sync").glob("*.py")}
    assert names == {path.name for path in WRITTEN}


@pytest.mark.parametrize(
    ("written", "generated"),
    [
        (pyoco_client.AsyncClient, pyoco_client.Client),
        (handle.AsyncRunHandle, sync_handle.RunHandle),
        (runs.AsyncRuns, sync_runs.Runs),
        (runs.AsyncRunChanges, sync_runs.RunChanges),
        (operations.AsyncWorkers, sync_operations.Workers),
        (operations.AsyncQueues, sync_operations.Queues),
        (operations.AsyncDeadLetters, sync_operations.DeadLetters),
        (pyoco_client.AsyncExecutionHandle, pyoco_client.ExecutionHandle),
        (pyoco_client.AsyncNodeHandle, pyoco_client.NodeHandle),
        (pyoco_client.AsyncTask, pyoco_client.Task),
        (pyoco_client.AsyncTaskWorker, pyoco_client.TaskWorker),
        (executions.AsyncExecutions, sync_executions.Executions),
        (graphs.AsyncGraphs, sync_graphs.Graphs),
        (waits.AsyncWaits, sync_waits.Waits),
    ],
)
def test_both_clients_have_the_same_signatures(written: type, generated: type) -> None:
    ours, theirs = public(written), public(generated)
    assert {name.replace("aclose", "close") for name in ours} == set(theirs)
    for name, function in ours.items():
        other = theirs[name.replace("aclose", "close")]
        assert parameters(function) == parameters(other), name
        assert not inspect.iscoroutinefunction(other)
        assert not inspect.isasyncgenfunction(other)


def public(kind: type) -> dict[str, object]:
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") or name == "__init__"
    }


def parameters(member: object) -> list[tuple[str, object, object]]:
    if not inspect.isfunction(member):
        return []
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(member).parameters.values()
    ]
