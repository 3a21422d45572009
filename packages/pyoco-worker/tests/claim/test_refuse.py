"""Invalid jobs, and the runs that they name."""

from typing import Any

import pytest

from pyoco_protocol.runs.lifecycle import RunStatus
from worker_bench import WorkerBench


async def refused(bench: WorkerBench, **fields: Any) -> str:
    """Store a run, queue an invalid job that names it, and return when the job is removed."""
    run = await bench.admit("note", **fields)
    await bench.queue(b'{"run_id": "%s"}' % run.run_id.encode())
    async with bench.worker():
        await bench.settled()
    assert [letter.reason for letter in await bench.dead_letters()] == ["invalid_job"]
    return run.run_id


async def test_a_waiting_run_fails_with_its_invalid_job(bench: WorkerBench) -> None:
    ended = (await bench.read(await refused(bench))).snapshot
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0012")
    assert ended.late_outcome is None


async def test_an_invalid_job_cannot_fail_a_run_with_a_recorded_cancel(bench: WorkerBench) -> None:
    """Another program reset the status to PENDING, and the cancel is still recorded."""
    cancel = {"cancel_requested_at": 5.0, "cancel_requested_by": "alice", "cancel_reason": "why"}
    ended = (await bench.read(await refused(bench, **cancel))).snapshot
    assert (ended.status, ended.late_outcome) == (RunStatus.CANCELLED, RunStatus.FAILED)
    assert (ended.cancel_requested_at, ended.cancel_requested_by) == (5.0, "alice")
    assert ended.cancel_reason == "why"
    assert ended.end_time is not None


@pytest.mark.parametrize("status", [each for each in RunStatus if each is not RunStatus.PENDING])
async def test_an_invalid_job_leaves_a_claimed_or_ended_run_unchanged(
    bench: WorkerBench, status: RunStatus
) -> None:
    run_id = await refused(bench, status=status, worker_id="worker-9", attempt=1)
    found = await bench.read(run_id)
    assert (found.snapshot.status, found.revision) == (status, 1)
