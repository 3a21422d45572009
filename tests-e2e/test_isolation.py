"""A flow that crashes or misuses its process does not affect the worker or other runs."""

from pathlib import Path

import psutil
import pytest

from pyoco_testkit.eventually import eventually
from pyoco_testkit.stack import Stack


@pytest.mark.parametrize(
    ("flow", "message"),
    [("leave", "exited with code 3"), ("crash", "SIGSEGV")],
)
async def test_a_flow_that_ends_its_process_fails_its_run_only(
    stack: Stack, flows: str, flow: str, message: str
) -> None:
    async with stack.worker(flows=flows, concurrency=2) as worker:
        long_run = await stack.client.submit("nap", params={"seconds": 2})
        await eventually(lambda: stack.client.status(long_run), "RUNNING")
        dead = await stack.client.wait(await stack.client.submit(flow))
        after = await stack.client.wait(await stack.client.submit("greet"))
        beside = await stack.client.wait(long_run)
        assert worker.is_running
    assert (dead["status"], dead["err_id"]) == ("FAILED", "ERR-PYOCO-0113")
    assert message in dead["error"]
    assert dead["tasks"] == {flow: "FAILED"}
    assert (after["status"], beside["status"]) == ("COMPLETED", "COMPLETED")
    assert beside["attempt"] == 1


async def test_an_output_above_the_brokers_limit_does_not_repeat_the_run(
    stack: Stack, flows: str
) -> None:
    async with stack.worker(flows=flows):
        ended = await stack.client.wait(await stack.client.submit("large"), include=["records"])
    assert (ended["status"], ended["attempt"]) == ("COMPLETED", 1)
    assert ended["tasks"] == {"large": "SUCCEEDED"}
    assert ended["task_records_truncated"] is True
    assert ended["task_records"] == {}


async def test_a_flow_works_in_its_own_directory_and_sees_no_secret(
    stack: Stack, flows: str, tmp_path: Path
) -> None:
    secrets = {"PYOCO_AUTH_PEPPER": "hush-hush", "DATABASE_URL": "hush-hush", "SHARED": "fine"}
    allowed = {"PYOCO_WORKER_PASS_ENV": "SHARED"}
    async with stack.worker(
        flows=flows, env={**secrets, **allowed}, arguments=["--data-dir", str(tmp_path / "data")]
    ):
        seen = []
        for _ in range(2):
            run_id = await stack.client.submit("surroundings")
            ended = await stack.client.wait(run_id, include=["records"])
            output = ended["task_records"]["surroundings"]["output"]
            assert output["environment"]["PYOCO_RUN_ID"] == run_id
            assert output["environment"]["PYOCO_ATTEMPT"] == "1"
            assert output["environment"]["SHARED"] == "fine"
            assert "hush-hush" not in str(output)
            seen.append(output)
    # The second run does not see the file of the first.
    assert [output["files"].count("note.txt") for output in seen] == [1, 1]
    assert all(Path(output["cwd"]).is_relative_to(tmp_path / "data") for output in seen)


@pytest.mark.parametrize("killed", [False, True])
async def test_children_and_their_processes_end_with_the_worker(
    stack: Stack, flows: str, killed: bool
) -> None:
    async with stack.worker(flows=flows, arguments=["--drain-timeout-sec", "0"]) as worker:
        run_id = await stack.client.submit("grandchild", params={"seconds": 600})

        def descendants() -> list[psutil.Process]:
            return worker.children()

        def sleepers() -> list[psutil.Process]:
            return [each for each in descendants() if "time.sleep(600)" in " ".join(each.cmdline())]

        await eventually(lambda: stack.client.status(run_id), "RUNNING")
        await eventually(lambda: len(sleepers()), 1)
        doomed = descendants()
        if killed:
            worker.kill()
        else:
            worker.terminate()
            assert await worker.wait() == 0
        await eventually(lambda: [each for each in doomed if each.is_running()], [])
