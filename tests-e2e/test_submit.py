"""Runs are submitted, executed and read."""

import uuid
from pathlib import Path
from urllib.parse import quote

import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


async def test_a_submitted_run_completes_with_task_states_and_outputs(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("greet", params={"name": "Ada"})
        ended = await stack.client.wait(run_id, include=["records"])
    assert ended["status"] == "COMPLETED"
    assert ended["tasks"] == {"greet": "SUCCEEDED", "shout": "SUCCEEDED"}
    assert ended["task_records"]["shout"]["output"] == "HELLO, ADA!"
    assert ended["attempt"] == 1
    assert ended["worker_id"] == "worker-1"
    assert ended["start_time"] <= ended["end_time"]


async def test_japanese_names_and_values_are_unchanged(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows):
        run_id = await stack.client.submit("日本語のフロー", params={"name": "世界"})
        ended = await stack.client.wait(run_id, include=["records"])
    assert (ended["status"], ended["flow_name"]) == ("COMPLETED", "日本語のフロー")
    assert ended["task_records"]["greet"]["output"] == "Hello, 世界!"


async def test_a_flow_that_raises_fails_with_its_error(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows):
        ended = await stack.client.wait(await stack.client.submit("fail"), include=["records"])
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0007")
    assert ended["error"] == "ValueError: the shop is closed"
    assert ended["tasks"] == {"greet": "SUCCEEDED", "fail": "FAILED", "shout": "PENDING"}
    assert "the shop is closed" in ended["task_records"]["fail"]["traceback"]


async def test_a_run_of_an_unknown_flow_fails_with_its_name(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows):
        ended = await stack.client.wait(await stack.client.submit("no-such-flow"))
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0006")
    assert "no-such-flow" in ended["error"]


async def test_a_run_waits_for_a_worker_with_its_tag(stack: Stack, flows: str) -> None:
    run_id = await stack.client.submit("greet", tag="gpu")
    async with stack.worker("cpu", flows=flows):
        other = await stack.client.submit("greet", tag="cpu")
        await stack.client.wait(other)
        assert await stack.client.status(run_id) == "PENDING"
    async with stack.worker(["cpu", "gpu"], flows=flows):
        assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "flow_name"),
        ({"flow_name": ""}, "flow_name"),
        ({"flow_name": "greet", "tag": "a.b"}, "tag"),
        ({"flow_name": "greet", "params": [1]}, "params"),
        ({"flow_name": "greet", "parms": {}}, "parms"),
    ],
)
async def test_an_invalid_submission_is_refused_with_the_name_of_the_field(
    stack: Stack, body: dict[str, object], where: str
) -> None:
    strict = {"Prefer": "handling=strict"}
    answer = await stack.client.http.post("/runs", json=body, headers=strict)
    problem = answer.json()
    assert (answer.status_code, problem["err_id"]) == (422, "ERR-PYOCO-0002")
    assert where in problem["detail"]


async def test_an_unknown_run_is_not_found(stack: Stack) -> None:
    for run_id in (str(uuid.uuid4()), "a b", ">", "*", "日本語", str(uuid.uuid4()).upper()):
        answer = await stack.client.http.get(f"/runs/{quote(run_id)}")
        assert (answer.status_code, answer.json()["err_id"]) == (404, "ERR-PYOCO-0005"), run_id


async def test_fifty_runs_leave_no_process_and_no_file(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    arguments = ["--data-dir", str(data)]
    async with stack.worker(flows=flows, concurrency=2, arguments=arguments) as worker:
        run_ids = [await stack.client.submit("noop") for _ in range(50)]
        ended = [await stack.client.wait(run_id) for run_id in run_ids]
        assert {run["status"] for run in ended} == {"COMPLETED"}
        assert {run["attempt"] for run in ended} == {1}
        children = worker.children()
        flow_processes = [each for each in children if "pyoco_worker.child" in each.cmdline()]
        assert len(flow_processes) == 2
        worker.terminate()
        assert await worker.wait() == 0
    await eventually(lambda: [child for child in children if child.is_running()], [])
    assert [path.name for path in worker.directory.iterdir()] == [worker.log_path.name]
    assert list(data.rglob("*")) == []
