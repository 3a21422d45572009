"""A worker with a signing key runs signed jobs only; a refused job becomes a dead letter."""

import time

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.signing import JobSigner
from pyoco_testkit.builders import job
from worker_fixture import NAMES, WorkerFixture, log_lines

KEY = "a-key-that-is-long-enough-for-hmac"
OTHER = "another-key-that-is-long-enough-too"
SIGNED_ONLY = {"PYOCO_JOB_SIGNING_KEY": f"{OTHER},{KEY}"}


async def admitted(fixture: WorkerFixture, tag: str = "default") -> RunJob:
    """Store a PENDING run and return its job, which is not queued yet."""
    params = {"ledger": str(fixture.ledger)}
    run = await fixture.admit("note", params=params, tag=tag)
    return job(run_id=run.run_id, flow_name="note", params=params, tag=tag)


def signature(wanted: RunJob, *, key: str = KEY, tag: str = "default") -> dict[str, str]:
    subject = NAMES.work(tag)
    return JobSigner((key,)).headers(subject, wanted.to_bytes(), now=time.time())


async def letters_of(fixture: WorkerFixture, run_id: str) -> list[DeadLetter]:
    return [letter for letter in await fixture.dead_letters() if letter.run_id == run_id]


async def test_jobs_without_a_valid_signature_become_dead_letters_and_their_runs_fail(
    fixture: WorkerFixture,
) -> None:
    unsigned, altered, misplaced, foreign, good = [await admitted(fixture) for _ in range(5)]
    params = {**altered.params, "amount": 1_000_000}
    async with fixture.worker(env=SIGNED_ONLY) as worker:
        await fixture.queue(unsigned)
        await fixture.queue(
            altered.model_copy(update={"params": params}), headers=signature(altered)
        )
        await fixture.queue(misplaced, headers=signature(misplaced, tag="gpu"))
        await fixture.queue(foreign, headers=signature(foreign, key=KEY.upper()))
        await fixture.queue(good, headers=signature(good))
        assert (await fixture.ended(good.run_id)).status is RunStatus.COMPLETED
        await fixture.settled()
        for refused in (unsigned, altered, misplaced, foreign):
            ended = await fixture.ended(refused.run_id)
            assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0141")
            [letter] = await letters_of(fixture, refused.run_id)
            assert (letter.reason, letter.err_id) == ("untrusted_job", "ERR-PYOCO-0141")
            assert fixture.executions(refused.run_id) == []
        assert fixture.executions(good.run_id) == [1]
        assert len(log_lines(worker, "untrusted job")) == 4
    assert KEY not in worker.log()
    assert OTHER not in worker.log()


async def test_a_replayed_job_of_a_finished_run_is_not_executed(
    fixture: WorkerFixture,
) -> None:
    """The signature is valid; the terminal status of the run prevents the execution."""
    wanted = await admitted(fixture)
    headers = signature(wanted)
    async with fixture.worker(env=SIGNED_ONLY):
        await fixture.queue(wanted, headers=headers)
        first = await fixture.ended(wanted.run_id)
        await fixture.settled()
        await fixture.queue(wanted, headers=headers)
        await fixture.settled()
        again = await fixture.read(wanted.run_id)
    assert fixture.executions(wanted.run_id) == [1]
    assert again.snapshot == first
    assert await fixture.dead_letters() == []


async def test_a_worker_without_a_key_accepts_signed_jobs(fixture: WorkerFixture) -> None:
    wanted = await admitted(fixture)
    async with fixture.worker():
        await fixture.queue(wanted, headers=signature(wanted))
        assert (await fixture.ended(wanted.run_id)).status is RunStatus.COMPLETED


async def test_flows_cannot_read_the_key(fixture: WorkerFixture) -> None:
    run = await fixture.admit("surroundings")
    wanted = job(run_id=run.run_id, flow_name="surroundings")
    async with fixture.worker(env=SIGNED_ONLY):
        await fixture.queue(wanted, headers=signature(wanted))
        ended = await fixture.ended(wanted.run_id)
    assert ended.status is RunStatus.COMPLETED
    assert KEY not in ended.model_dump_json()
