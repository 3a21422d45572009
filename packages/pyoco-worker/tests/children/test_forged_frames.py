"""Frames that user code sends to the worker itself."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.eventually import eventually
from pyoco_worker.child.frames import Finished, RunOrder
from pyoco_worker.children.child_process import ChildExitedError, ChildProcess, ChildSetup
from worker_fixture import WorkerFixture, began, let_go_on, log_lines

NOT_ITS_OWN = "sent a frame that does not belong to its run"


@pytest.fixture
async def child(tmp_path: Path, hostile_flows: str) -> AsyncGenerator[ChildProcess]:
    directory = tmp_path / "runs"
    directory.mkdir()
    setup = ChildSetup(
        resolver=hostile_flows,
        import_paths=(),
        max_record_bytes=262_144,
        environment={},
        directory=directory,
    )
    started = await ChildProcess.start(setup)
    try:
        yield started
    finally:
        await started.kill()


async def run(child: ChildProcess, flow_name: str, **params: Any) -> Finished:
    order = RunOrder(run_id=new_run_id(), attempt=1, flow_name=flow_name, params=params)
    return await child.run(order, lambda _: None)


def wait_files(directory: Path) -> dict[str, str]:
    return {"began": str(directory / "began"), "until": str(directory / "until")}


async def test_a_run_cannot_end_the_next_run_of_its_child(
    child: ChildProcess, tmp_path: Path
) -> None:
    forge = tmp_path / "forge"
    assert (await run(child, "forge-next", forge=str(forge))).how == "succeeded"
    params = wait_files(tmp_path)

    async def attack() -> None:
        await began(params)
        forge.touch()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(attack)
        with pytest.raises(ChildExitedError, match=NOT_ITS_OWN):
            await run(child, "wait", **params)
    assert not child.is_alive


@pytest.mark.parametrize(
    "frame",
    [
        {"kind": "finished", "run_id": "of another run", "how": "succeeded"},
        {"kind": "finished", "how": "succeeded", "secret": "0" * 32},
        {"kind": "task", "run_id": "of another run", "task": "t", "state": "SUCCEEDED"},
        {"kind": "task", "task": "t", "state": "SUCCEEDED"},
        {"kind": "progress", "tasks": {"t": "SUCCEEDED"}},
        {"kind": "ready"},
        {"kind": "unusable", "error": "of no use"},
    ],
    ids=lambda frame: f"{frame['kind']}-{len(frame)}",
)
async def test_a_frame_without_the_id_and_secret_of_its_run_kills_the_child(
    child: ChildProcess, frame: dict[str, Any]
) -> None:
    with pytest.raises(ChildExitedError, match=NOT_ITS_OWN):
        await run(child, "send-at-once", frame=frame)
    assert not child.is_alive


@pytest.mark.parametrize("kind", ["ready", "finished"])
async def test_a_frame_between_two_runs_kills_the_child(
    child: ChildProcess, tmp_path: Path, kind: str
) -> None:
    forge = tmp_path / "forge"
    frame = {"kind": kind, "run_id": new_run_id(), "how": "succeeded"}
    await run(child, "send-between-runs", frame=frame, forge=str(forge))
    forge.touch()
    await eventually(lambda: child.is_alive, False)
    with pytest.raises(ChildExitedError, match=NOT_ITS_OWN):
        await run(child, "noop")


async def test_a_run_hit_by_a_forged_result_fails_and_the_next_one_completes(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    forge = fixture.directory / "forge"
    async with fixture.worker(flows=hostile_flows) as worker:
        await fixture.ended(await fixture.submit("forge-next", forge=str(forge)))
        waiting = fixture.wait_files()
        victim = await fixture.submit("wait", **waiting)
        await began(waiting)
        forge.touch()
        ended = await fixture.ended(victim)
        let_go_on(waiting)
        after = await fixture.ended(await fixture.submit("noop"))
        await eventually(lambda: log_lines(worker, "child sent a forged frame"), bool)
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0113")
    assert ended.result is None
    assert NOT_ITS_OWN in (ended.error or "")
    assert after.status is RunStatus.COMPLETED


async def test_a_run_hit_before_its_first_task_is_executed_in_another_child(
    fixture: WorkerFixture, hostile_flows: str
) -> None:
    async with fixture.worker(flows=hostile_flows):
        await fixture.ended(await fixture.submit("forge-next"))
        ended = await fixture.ended(await fixture.submit("blocked-by-mark"))
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert ended.result == {"noop": None}
