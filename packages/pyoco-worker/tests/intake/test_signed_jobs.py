"""A worker with a signing key runs signed jobs only; a refused job becomes a dead letter."""

import time

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.signing import JobSigner
from pyoco_testkit.builders import job
from worker_bench import NAMES, WorkerBench, log_lines

KEY = "a-key-that-is-long-enough-for-hmac"
OTHER = "another-key-that-is-long-enough-too"
SIGNED_ONLY = {"PYOCO_JOB_SIGNING_KEY": f"{OTHER},{KEY}"}


async def admitted(bench: WorkerBench, tag: str = "default") -> RunJob:
    """Store a PENDING run and return its job, which is not queued yet."""
    params = {"ledger": str(bench.ledger)}
    run = await bench.admit("note", params=params, tag=tag)
    return job(run_id=run.run_id, flow_name="note", params=params, tag=tag)


def signature(wanted: RunJob, *, key: str = KEY, tag: str = "default") -> dict[str, str]:
    subject = NAMES.work(tag)
    return JobSigner((key,)).headers(subject, wanted.to_bytes(), now=time.time())


async def letters_of(bench: WorkerBench, run_id: str) -> list[DeadLetter]:
    return [letter for letter in await bench.dead_letters() if letter.run_id == run_id]


async def test_jobs_without_a_valid_signature_become_dead_letters_and_their_runs_fail(
    bench: WorkerBench,
) -> None:
    unsigned, altered, misplaced, foreign, good = [await admitted(bench) for _ in range(5)]
    params = {**altered.params, "amount": 1_000_000}
    async with bench.worker(env=SIGNED_ONLY) as worker:
        await bench.queue(unsigned)
        await bench.queue(altered.model_copy(update={"params": params}), headers=signature(altered))
        await bench.queue(misplaced, headers=signature(misplaced, tag="gpu"))
        await bench.queue(foreign, headers=signature(foreign, key=KEY.upper()))
        await bench.queue(good, headers=signature(good))
        assert (await bench.ended(good.run_id)).status is RunStatus.COMPLETED
        await bench.settled()
        for refused in (unsigned, altered, misplaced, foreign):
            ended = await bench.ended(refused.run_id)
            assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0141")
            [letter] = await letters_of(bench, refused.run_id)
            assert (letter.reason, letter.err_id) == ("untrusted_job", "ERR-PYOCO-0141")
            assert bench.executions(refused.run_id) == []
        assert bench.executions(good.run_id) == [1]
        assert len(log_lines(worker, "untrusted job")) == 4
    assert KEY not in worker.log()
    assert OTHER not in worker.log()


async def test_a_replayed_job_of_a_finished_run_is_not_executed(
    bench: WorkerBench,
) -> None:
    """The signature is valid; the terminal status of the run prevents the execution."""
    wanted = await admitted(bench)
    headers = signature(wanted)
    async with bench.worker(env=SIGNED_ONLY):
        await bench.queue(wanted, headers=headers)
        first = await bench.ended(wanted.run_id)
        await bench.settled()
        await bench.queue(wanted, headers=headers)
        await bench.settled()
        again = await bench.read(wanted.run_id)
    assert bench.executions(wanted.run_id) == [1]
    assert again.snapshot == first
    assert await bench.dead_letters() == []


async def test_a_worker_without_a_key_accepts_signed_jobs(bench: WorkerBench) -> None:
    wanted = await admitted(bench)
    async with bench.worker():
        await bench.queue(wanted, headers=signature(wanted))
        assert (await bench.ended(wanted.run_id)).status is RunStatus.COMPLETED


async def test_flows_cannot_read_the_key(bench: WorkerBench) -> None:
    run = await bench.admit("surroundings")
    wanted = job(run_id=run.run_id, flow_name="surroundings")
    async with bench.worker(env=SIGNED_ONLY):
        await bench.queue(wanted, headers=signature(wanted))
        ended = await bench.ended(wanted.run_id)
    assert ended.status is RunStatus.COMPLETED
    assert KEY not in ended.model_dump_json()
