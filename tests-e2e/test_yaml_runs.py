"""Workflow files are executed, limited to allowed callables, and stored."""

import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack

TASKS = Path(__file__).parent / "flows" / "yaml_tasks.py"

GREETING = """\
version: 1
flow:
  graph: |
    greet >> shout
  defaults:
    name: world
tasks:
  greet:
    callable: yaml_tasks:greet
    inputs: {name: $ctx.params.name}
  shout:
    callable: yaml_tasks:shout
    inputs: {text: $node.greet.output}
  unused:
    callable: no_such_module:function
"""


def calling(function: str, **inputs: Any) -> str:
    """Return a workflow file with one task."""
    task = {"callable": function, "inputs": inputs}
    return json.dumps({"flow": {"graph": "only"}, "tasks": {"only": task}})


async def submit(stack: Stack, text: str, flow_name: str = "from-a-file") -> str:
    answer = await stack.client.http.post(
        "/runs/yaml", files={"workflow": ("flow.yaml", text)}, data={"flow_name": flow_name}
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run_id"])


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a worker that can import `yaml_tasks`."""
    directory = tmp_path / "modules"
    directory.mkdir()
    shutil.copy(TASKS, directory)
    return {"PYTHONPATH": str(directory)}


@pytest.fixture
async def system(stack: Stack, modules: dict[str, str]) -> AsyncGenerator[Stack]:
    """Start a stack whose worker has no flow resolver."""
    async with stack.worker(env=modules):
        yield stack


async def test_a_workflow_file_runs_on_a_worker_that_has_no_flows(system: Stack) -> None:
    run_id = await submit(system, GREETING)
    ended = await system.client.wait(run_id, include=["records"])
    assert (ended["status"], ended["flow_name"]) == ("COMPLETED", "from-a-file")
    assert ended["params"] == {"name": "world"}
    assert ended["tasks"] == {"greet": "SUCCEEDED", "shout": "SUCCEEDED"}
    assert ended["task_records"]["shout"]["output"] == "HELLO, WORLD!"
    assert ended["workflow_yaml_bytes"] == len(GREETING)
    assert "workflow_yaml" not in ended


OF_THE_SPEC = """\
version: '1'
flow:
  graph: |
    # both at the same time
    (left & right) >> joined
    (left | right) >> early
    (joined & early) >> last
  defaults:
tasks:
  left:
    callable: yaml_tasks:beside
    inputs: {{directory: {directory}, name: left, other: right}}
    outputs: [left]
  right:
    callable: yaml_tasks:beside
    inputs: {{directory: {directory}, name: right, other: left}}
  joined:
    callable: yaml_tasks:join
    inputs: {{left: $node.left.output, right: $node.right.output}}
  early:
    callable: yaml_tasks:greet
    inputs: {{name: you}}
  last:
    callable: yaml_tasks:shout
    inputs: {{text: $node.joined.output}}
"""


async def test_a_file_of_the_time_of_the_specification_runs(system: Stack, tmp_path: Path) -> None:
    text = OF_THE_SPEC.format(directory=tmp_path)
    ended = await system.client.wait(await submit(system, text), include=["records"])
    assert ended["status"] == "COMPLETED", ended
    names = ("left", "right", "joined", "early", "last")
    assert ended["tasks"] == dict.fromkeys(names, "SUCCEEDED")
    assert ended["result"] == {"last": "LEFT AND RIGHT"}
    assert ended["params"] == {}
    records = ended["task_records"]
    assert records["joined"]["started_at"] >= records["right"]["ended_at"]
    assert records["last"]["started_at"] >= records["early"]["ended_at"]
    logs = (await system.client.http.get(f"/runs/{ended['run_id']}/logs")).json()
    lines = {(entry["task"], entry["text"].strip()) for entry in logs["items"]}
    assert lines == {("left", "this is left"), ("right", "this is right")}


async def test_parallel_steps_are_cancelled_and_fail_together(
    system: Stack, tmp_path: Path
) -> None:
    def waiting(graph: str) -> str:
        inputs = {"directory": str(tmp_path), "name": "left", "other": "never"}
        tasks = {
            "left": {"callable": "yaml_tasks:beside", "inputs": inputs},
            "right": {"callable": "yaml_tasks:beside", "inputs": {**inputs, "name": "right"}},
            "bad": {"callable": "yaml_tasks:fail", "inputs": {"message": "out of paper"}},
            "last": {"callable": "yaml_tasks:greet", "inputs": {"name": "you"}},
        }
        return json.dumps({"flow": {"graph": graph}, "tasks": tasks})

    run_id = await submit(system, waiting("(left & right) >> last"))
    both = {"left": "RUNNING", "right": "RUNNING", "last": "PENDING"}

    async def tasks() -> object:
        return (await system.client.get(run_id)).get("tasks")

    await eventually(tasks, both, 20)
    await system.client.http.post(f"/runs/{run_id}/cancel")
    cancelled = await system.client.wait(run_id)
    assert cancelled["status"] == "CANCELLED"
    assert cancelled["tasks"]["last"] in ("CANCELLED", "PENDING")

    failed = await system.client.wait(await submit(system, waiting("(bad & last)\nbad >> left")))
    assert (failed["status"], failed["err_id"]) == ("FAILED", "ERR-PYOCO-0007")
    assert "out of paper" in failed["error"]
    assert failed["tasks"] == {"bad": "FAILED", "last": "SUCCEEDED", "left": "PENDING"}


async def test_an_invalid_graph_in_operator_form_is_refused_with_its_line(system: Stack) -> None:
    text = OF_THE_SPEC.format(directory="x").replace("early) >> last", "early) >> left")
    answer = await system.client.http.post(
        "/runs/yaml", files={"workflow": text}, data={"flow_name": "circle"}
    )
    assert answer.status_code == 422
    assert "flow.graph (line 7): the steps wait for each other" in answer.text, answer.text


async def test_a_file_submitted_several_times_is_stored_once(system: Stack) -> None:
    runs = [await submit(system, GREETING) for _ in range(3)]
    ended = [await system.client.wait(run_id) for run_id in runs]
    assert {run["workflow_yaml_sha256"] for run in ended} == {ended[0]["workflow_yaml_sha256"]}
    # One message for the bytes and one for the metadata.
    assert await system.message_count("OBJ_pyoco_workflows") == 2


async def test_callables_that_are_not_allowed_are_never_called(
    system: Stack, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    touch = f"touch {canary}"
    refused = [
        calling("os:system", command=touch),
        calling("subprocess:check_output", args=["touch", str(canary)]),
        calling("yaml_tasks:reexported", command=touch),
        calling("pathlib:Path", args=[str(canary)]),
        calling("pyoco_worker.cli:main"),
        calling("yaml:unsafe_load", stream="!!python/object/apply:os.system [id]"),
    ]
    for text in refused:
        ended = await system.client.wait(await submit(system, text))
        assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0119"), text
        assert "PYOCO_CALLABLE_ALLOW=" in ended["error"]
    assert not canary.exists()
    letters = await system.dead_letters()
    assert {letter["reason"] for letter in letters} == {"execution_error"}


async def test_an_allow_list_permits_only_its_modules(
    stack: Stack, modules: dict[str, str]
) -> None:
    env = {**modules, "PYOCO_CALLABLE_ALLOW": "string,base64"}
    async with stack.worker(env=env):
        allowed = await submit(stack, calling("string:capwords", s="a b"))
        ended = await stack.client.wait(allowed, include=["records"])
        assert ended["task_records"]["only"]["output"] == "A B"
        refused = await stack.client.wait(await submit(stack, GREETING))
    assert (refused["status"], refused["err_id"]) == ("FAILED", "ERR-PYOCO-0119")
    assert "PYOCO_CALLABLE_ALLOW=string,base64,yaml_tasks" in refused["error"]


async def test_missing_callables_and_exceptions_fail_with_a_clear_error(system: Stack) -> None:
    errors = {
        calling("no_such_module:function"): "the module no_such_module cannot be imported",
        calling("yaml_tasks:no_such_function"): "has no no_such_function",
        calling("yaml_tasks:TASKS"): "has no TASKS",
        calling("yaml_tasks:fail", message="out of paper"): "ValueError: out of paper",
    }
    for text, words in errors.items():
        ended = await system.client.wait(await submit(system, text))
        assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0007")
        assert words in ended["error"]


async def test_a_slow_import_does_not_stop_the_heartbeats(
    stack: Stack, modules: dict[str, str]
) -> None:
    slow = Path(modules["PYTHONPATH"]) / "slow_to_load.py"
    slow.write_text("import time\ntime.sleep(2)\ndef function(): return 'loaded'\n")
    env = {**modules, "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.1"}
    heartbeats: set[float] = set()
    async with stack.worker(env=env):
        run_id = await submit(stack, calling("slow_to_load:function"))

        async def ended() -> bool:
            run = await stack.client.get(run_id)
            heartbeats.add(run["heartbeat_at"])
            return bool(run["status"] == "COMPLETED")

        await eventually(ended, True, 20)
    assert len(heartbeats) > 5


async def test_a_forged_job_fails_its_run_and_not_its_worker(system: Stack) -> None:
    answer = await system.client.http.post(
        "/runs/yaml",
        files={"workflow": GREETING},
        data={"flow_name": "forged", "tag": "unserved"},
    )
    run = await system.client.get(answer.json()["run_id"])
    forged = {
        **{name: run[name] for name in ("run_id", "flow_name", "tags", "params", "submitted_at")},
        "tag": "default",
        "workflow_yaml": "flow: {graph: 'until(cond=\"9**9**9 > $ctx.n\"){a}'}\n"
        "tasks: {a: {callable: 'yaml_tasks:greet', retries: 3}}",
    }
    await system.publish_job("default", json.dumps(forged).encode())
    ended = await system.client.wait(run["run_id"])
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0012")
    assert "tasks.a.retries (line 2)" in ended["error"]
    assert "`**` is not allowed" in ended["error"]
    again = await system.client.wait(await submit(system, GREETING))
    assert again["status"] == "COMPLETED"


@pytest.mark.parametrize("product", ["'a' * 3000000000", "'%02000000000d' % $ctx.params.x"])
async def test_an_expression_that_takes_all_memory_is_refused_by_gateway_and_worker(
    system: Stack, product: str
) -> None:
    hostile = json.dumps(
        {
            "flow": {
                "graph": f'until(cond="{product} == $ctx.params.x") {{ greet }}',
                "defaults": {"x": 1, "name": "you"},
            },
            "tasks": {"greet": {"callable": "yaml_tasks:greet"}},
        }
    )
    refused = await system.client.http.post(
        "/runs/yaml", files={"workflow": hostile}, data={"flow_name": "hostile"}
    )
    assert refused.status_code == 422
    assert "only for numbers" in refused.text
    # A job that does not come from the gateway.
    run = await system.client.get(await system.client.submit("hostile", tag="unserved"))
    job = {
        **{name: run[name] for name in ("run_id", "flow_name", "tags", "submitted_at")},
        "tag": "default",
        "workflow_yaml": hostile,
    }
    await system.publish_job("default", json.dumps(job).encode())
    ended = await system.client.wait(run["run_id"])
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0012")
    assert "only for numbers" in ended["error"]


async def test_a_job_whose_text_does_not_match_its_hash_becomes_a_dead_letter(
    system: Stack,
) -> None:
    answer = await system.client.http.post(
        "/runs/yaml",
        files={"workflow": GREETING},
        data={"flow_name": "swapped", "tag": "unserved"},
    )
    run = await system.client.get(answer.json()["run_id"])
    swapped = {
        **{name: run[name] for name in ("run_id", "flow_name", "tags", "params", "submitted_at")},
        "tag": "default",
        "workflow_yaml": calling("yaml_tasks:greet", name="you"),
        "workflow_yaml_sha256": run["workflow_yaml_sha256"],
    }
    await system.publish_job("default", json.dumps(swapped).encode())
    ended = await system.client.wait(run["run_id"])
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0012")
    assert [letter["reason"] for letter in await system.dead_letters()] == ["invalid_job"]


async def test_a_job_of_an_earlier_server_runs_with_its_text_and_defaults(system: Stack) -> None:
    run_id = await system.client.submit("old", tag="unserved")
    run = await system.client.get(run_id)
    job = {
        **{name: run[name] for name in ("run_id", "flow_name", "tags", "submitted_at")},
        "tag": "default",
        "workflow_yaml": GREETING,
    }
    await system.publish_job("default", json.dumps(job).encode())
    ended = await system.client.wait(run_id, include=["records"])
    assert ended["task_records"]["shout"]["output"] == "HELLO, WORLD!"


async def test_a_run_of_a_file_is_completed_by_another_worker_after_a_kill(
    tmp_path: Path, modules: dict[str, str]
) -> None:
    env = {
        "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
        # The broker would redeliver the job only after ten minutes.
        "PYOCO_CONSUMER_ACK_WAIT_SEC": "600",
        "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "100",
    }
    ledger = tmp_path / "ledger"
    text = json.dumps(
        {
            "flow": {"graph": "note >> nap", "defaults": {"ledger": str(ledger), "seconds": 1}},
            "tasks": {
                "note": {"callable": "yaml_tasks:note"},
                "nap": {"callable": "yaml_tasks:nap"},
            },
        }
    )
    async with Stack(tmp_path / "stack", env=env) as stack, stack.worker(env=modules) as doomed:
        run_id = await submit(stack, text)
        await eventually(ledger.exists, True)
        doomed.kill()
        async with stack.worker(env=modules, worker_id="second"):
            ended = await stack.client.wait(run_id, include=["records"])
    assert (ended["status"], ended["attempt"], ended["worker_id"]) == ("COMPLETED", 2, "second")
    assert ended["task_records"]["nap"]["output"] == "rested"
    assert ledger.read_text(encoding="utf-8").split() == [run_id, "1", run_id, "2"]


async def test_a_failed_run_of_a_workflow_file_is_redriven_with_its_file(
    system: Stack, tmp_path: Path
) -> None:
    needed = tmp_path / "needed.txt"
    run_id = await submit(system, calling("yaml_tasks:read", path=str(needed)))
    assert (await system.client.wait(run_id))["status"] == "FAILED"
    (letter,) = await eventually(system.dead_letters, lambda found: len(found) == 1)
    assert letter["run_id"] == run_id
    needed.write_text("here", encoding="utf-8")

    answer = await system.client.http.post("/dlq/1/redrive")
    assert answer.status_code == 200, answer.text
    again = await system.client.wait(answer.json()["new_run_id"])
    assert (again["status"], again["redriven_from"]) == ("COMPLETED", run_id)
    assert again["result"] == {"only": "here"}
    first = await system.client.get(run_id)
    assert again["workflow_yaml_sha256"] == first["workflow_yaml_sha256"]
