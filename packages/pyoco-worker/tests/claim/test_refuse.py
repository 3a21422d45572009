"""Invalid jobs, and the runs that they name."""

from typing import Any

import pytest

from pyoco_protocol.runs.lifecycle import RunStatus
from worker_fixture import WorkerFixture


async def refused(fixture: WorkerFixture, **fields: Any) -> str:
    """Store a run, queue an invalid job that names it, and return when the job is removed."""
    run = await fixture.admit("note", **fields)
    await fixture.queue(b'{"run_id": "%s"}' % run.run_id.encode())
    async with fixture.worker():
        await fixture.settled()
    assert [letter.reason for letter in await fixture.dead_letters()] == ["invalid_job"]
    return run.run_id


async def test_a_waiting_run_fails_with_its_invalid_job(fixture: WorkerFixture) -> None:
    ended = (await fixture.read(await refused(fixture))).snapshot
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0012")
    assert ended.late_outcome is None


async def test_an_invalid_job_cannot_fail_a_run_with_a_recorded_cancel(
    fixture: WorkerFixture,
) -> None:
    """Another program reset the status to PENDING, and the cancel is still recorded."""
    cancel = {"cancel_requested_at": 5.0, "cancel_requested_by": "alice", "cancel_reason": "why"}
    ended = (await fixture.read(await refused(fixture, **cancel))).snapshot
    assert (ended.status, ended.late_outcome) == (RunStatus.CANCELLED, RunStatus.FAILED)
    assert (ended.cancel_requested_at, ended.cancel_requested_by) == (5.0, "alice")
    assert ended.cancel_reason == "why"
    assert ended.end_time is not None


@pytest.mark.parametrize("status", [each for each in RunStatus if each is not RunStatus.PENDING])
async def test_an_invalid_job_leaves_a_claimed_or_ended_run_unchanged(
    fixture: WorkerFixture, status: RunStatus
) -> None:
    run_id = await refused(fixture, status=status, worker_id="worker-9", attempt=1)
    found = await fixture.read(run_id)
    assert (found.snapshot.status, found.revision) == (status, 1)
