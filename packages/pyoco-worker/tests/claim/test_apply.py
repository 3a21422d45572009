"""Claims of a worker whose broker user may not read records: a gateway reads them for it."""

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit.builders import job
from pyoco_testkit.eventually import eventually
from worker_fixture import WorkerFixture, log_lines

READS_NOTHING = {"PYOCO_WORKER_PREPARES_BROKER": "false"}
NOT_CLAIMED = "run not claimed for now"


async def test_a_job_is_kept_while_no_gateway_reads_its_record(fixture: WorkerFixture) -> None:
    await fixture.consumer()
    run_id = await fixture.submit("greet")
    async with fixture.worker(env=READS_NOTHING) as worker:
        # At the second delivery, an absent run would become a dead letter.
        await eventually(fixture.deliveries, lambda count: count >= 3)
        assert "no gateway answers" in log_lines(worker, NOT_CLAIMED)[0]["exc_message"]
        assert (await fixture.status(run_id), await fixture.jobs_left()) == ("PENDING", 1)
        async with fixture.answering_reads():
            ended = await fixture.ended(run_id)
            await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert await fixture.dead_letters() == []


async def test_a_job_without_a_run_is_dropped_when_a_gateway_confirms_that_there_is_none(
    fixture: WorkerFixture,
) -> None:
    await fixture.consumer()
    async with fixture.answering_reads(), fixture.worker(env=READS_NOTHING):
        await fixture.queue(job())
        await fixture.settled()
    [letter] = await fixture.dead_letters()
    assert (letter.reason, letter.num_delivered) == (DeadLetterReason.RUN_ABSENT, 2)


async def test_an_unreadable_record_is_found_through_a_gateway_too(fixture: WorkerFixture) -> None:
    await fixture.consumer()
    wanted = job()
    await fixture.put_raw(wanted.run_id, b"not a record")
    async with fixture.answering_reads(), fixture.worker(env=READS_NOTHING):
        await fixture.queue(wanted)
        await fixture.settled()
    [letter] = await fixture.dead_letters()
    assert (letter.reason, letter.err_id) == (DeadLetterReason.RUN_ABSENT, "ERR-PYOCO-0115")
