"""A job that cannot be completed leaves the queue and becomes a dead letter."""

import json
from pathlib import Path

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


async def test_a_failed_run_leaves_a_dead_letter_and_no_job(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows):
        failed = await stack.client.submit("fail", params={"password": "hush-hush"})
        unknown = await stack.client.submit("no-such-flow")
        await stack.client.wait(failed)
        await stack.client.wait(unknown)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
    letters = {letter["run_id"]: letter for letter in await stack.dead_letters()}
    assert letters[failed]["reason"] == "execution_error"
    assert letters[failed]["error"] == "ValueError: the shop is closed"
    assert letters[unknown]["reason"] == "flow_not_found"
    assert letters[unknown]["worker_id"] == "worker-1"
    assert "hush-hush" not in json.dumps(list(letters.values()))


async def test_dead_letters_of_execution_errors_can_be_switched_off(
    tmp_path: Path, flows: str
) -> None:
    env = {"PYOCO_DLQ_PUBLISH_EXECUTION_ERROR": "false"}
    async with Stack(tmp_path / "stack", env=env) as stack, stack.worker(flows=flows):
        await stack.client.wait(await stack.client.submit("fail"))
        unknown = await stack.client.submit("no-such-flow")
        await stack.client.wait(unknown)
        await eventually(lambda: stack.message_count("PYOCO_WORK"), 0)
        assert [letter["run_id"] for letter in await stack.dead_letters()] == [unknown]


async def test_an_invalid_job_fails_the_pending_run_it_names(stack: Stack, flows: str) -> None:
    run_id = await stack.client.submit("greet", tag="later")
    await stack.publish_job("default", json.dumps({"run_id": run_id, "tags": 7}).encode())
    await stack.publish_job("default", b"no JSON at all")
    async with stack.worker(flows=flows) as worker:
        ended = await stack.client.wait(run_id)
        await eventually(lambda: stack.message_count("PYOCO_DLQ"), 2)
        after = await stack.client.wait(await stack.client.submit("greet"))
        assert worker.is_running
    assert (ended["status"], ended["err_id"]) == ("FAILED", "ERR-PYOCO-0012")
    assert {letter["reason"] for letter in await stack.dead_letters()} == {"invalid_job"}
    assert after["status"] == "COMPLETED"


async def test_an_invalid_job_does_not_change_a_running_run(stack: Stack, flows: str) -> None:
    async with stack.worker(flows=flows, concurrency=2):
        run_id = await stack.client.submit("nap", params={"seconds": 1})
        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        await stack.publish_job("default", json.dumps({"run_id": run_id}).encode())
        await eventually(lambda: stack.message_count("PYOCO_DLQ"), 1)
        assert (await stack.client.wait(run_id))["status"] == "COMPLETED"


async def test_the_log_contains_the_cause_of_a_failure_and_no_params(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows) as worker:
        run_id = await stack.client.submit("fail", params={"password": "hush-hush"})
        await stack.client.wait(run_id)
        await worker.wait_for_log("run failed")
        lines = [json.loads(line) for line in worker.log().splitlines() if "run failed" in line]
    (line,) = lines
    assert (line["run_id"], line["err_id"], line["msg_id"]) == (
        run_id,
        "ERR-PYOCO-0007",
        "MSG-PYOCO-0007",
    )
    assert (line["exc_type"], line["exc_message"]) == ("ValueError", "the shop is closed")
    assert "python_flows.py" in line["exc_traceback"]
    assert "hush-hush" not in worker.log() + stack.gateway.log()
