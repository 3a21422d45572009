"""Invalid, late, duplicate and orphaned jobs: each is settled, and the worker continues."""

import json
from pathlib import Path

from pyoco_protocol.dead_letters import DeadLetterReason
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.settings import TopologySettings
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.builders import job, job_json
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from worker_fixture import NAMES, WorkerFixture, began, let_go_on

# A short lease, so that a job without an ack is delivered again soon.
SHORT_LEASE = {
    "PYOCO_CONSUMER_ACK_WAIT_SEC": "1",
    "PYOCO_ACK_PROGRESS_INTERVAL_SEC": "0.2",
    "PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.2",
}

MALFORMED = {
    "submitted_at is a list": json.dumps(job_json(submitted_at=[1])).encode(),
    "tags is a number": json.dumps(job_json(tags=7)).encode(),
    "params is a list": json.dumps(job_json(params=[])).encode(),
    "not JSON": b"hello",
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "not UTF-8": b"\xff\xfe\x00",
    "half a job": json.dumps(job_json()).encode()[:-5],
    "no run id": json.dumps(job_json(run_id=None)).encode(),
    "an invalid id": json.dumps(job_json(run_id="../../etc/passwd")).encode(),
    "an id in capitals": json.dumps(job_json(run_id=new_run_id().upper())).encode(),
    "an invalid tag": json.dumps(job_json(tag="a.b")).encode(),
    "a flow name with a line break": json.dumps(job_json(flow_name="a\nb")).encode(),
    "half a character": b'{"run_id": "\\ud800"}',
    "nested deeply": b"[" * 100_000,
    "a megabyte": json.dumps(job_json(tags="x" * 1_000_000)).encode(),
}


async def test_malformed_jobs_become_dead_letters_and_the_worker_continues(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker() as worker:
        for body in MALFORMED.values():
            await fixture.queue(body)
        good = await fixture.submit("greet")
        assert (await fixture.ended(good)).status is RunStatus.COMPLETED
        await fixture.settled()
        letters = await fixture.dead_letters()
        assert worker.is_running
    assert [letter.reason for letter in letters] == [DeadLetterReason.INVALID_JOB] * len(MALFORMED)
    assert {letter.err_id for letter in letters} == {"ERR-PYOCO-0012"}
    assert {letter.tag for letter in letters} == {"default"}
    assert {letter.subject for letter in letters} == {NAMES.work("default")}


async def test_a_job_with_headers_of_a_broker_status_message_becomes_a_dead_letter(
    fixture: WorkerFixture,
) -> None:
    statuses = ("100", "404", "408", "503")
    async with fixture.worker(env=SHORT_LEASE):
        for status in statuses:
            await fixture.queue(b"", headers={"Status": status, "Description": "made up"})
        await fixture.settled()
        letters = await fixture.dead_letters()
        assert [letter.reason for letter in letters] == ["invalid_job"] * len(statuses)
        assert (await fixture.ended(await fixture.submit("noop"))).status is RunStatus.COMPLETED


async def test_a_job_without_a_run_becomes_a_dead_letter_at_its_second_delivery(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker():
        orphan = job(flow_name="greet")
        await fixture.queue(orphan)
        await fixture.settled()
        (letter,) = await fixture.dead_letters()
        assert (letter.reason, letter.run_id) == (DeadLetterReason.RUN_ABSENT, orphan.run_id)
        assert letter.num_delivered == 2
        assert await fixture.store.read(orphan.run_id) is None


async def test_a_dead_letter_has_the_tenant_of_its_run(fixture: WorkerFixture) -> None:
    def malformed(**fields: object) -> bytes:
        return json.dumps(job_json(tags=7, **fields)).encode()

    failing, waiting = [
        await fixture.admit(name, tenant_id="acme", api_key_id="k1") for name in ("fail", "greet")
    ]
    orphan = job(flow_name="greet", tenant_id="globex")
    unknown = new_run_id()
    async with fixture.worker():
        await fixture.queue(RunJob.of(failing, default_tag="default"))
        await fixture.queue(orphan)
        # The tenant comes from the record, not from the message.
        await fixture.queue(malformed(run_id=waiting.run_id, tenant_id="globex"))
        await fixture.queue(malformed(run_id=unknown, tenant_id="globex"))
        await fixture.queue(malformed(run_id=None, tenant_id=["globex"]))
        ended = await fixture.ended(failing.run_id)
        await fixture.settled()
        letters = {letter.run_id: letter.tenant_id for letter in await fixture.dead_letters()}
    assert (ended.tenant_id, ended.api_key_id) == ("acme", "k1")
    assert letters == {
        failing.run_id: "acme",
        waiting.run_id: "acme",
        orphan.run_id: "globex",
        unknown: "globex",
        None: None,
    }


async def test_a_run_whose_record_is_stored_after_its_job_is_executed(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker():
        early = job(flow_name="note", params={"ledger": str(fixture.ledger)})
        await fixture.queue(early)
        await eventually(fixture.deliveries, 1)
        await fixture.admit("note", run_id=early.run_id, params=early.params)
        assert (await fixture.ended(early.run_id)).status is RunStatus.COMPLETED
        await fixture.settled()
    assert fixture.executions(early.run_id) == [1]


async def test_an_unreadable_record_does_not_stop_the_queue(fixture: WorkerFixture) -> None:
    async with fixture.worker() as worker:
        broken = job(flow_name="greet")
        await ask(fixture.broker.client, NAMES.run(broken.run_id), b'{"status": "?"}')
        await fixture.queue(broken)
        good = await fixture.submit("greet")
        assert (await fixture.ended(good)).status is RunStatus.COMPLETED
        await fixture.settled()
        assert [letter.run_id for letter in await fixture.dead_letters()] == [broken.run_id]
        assert worker.is_running


async def test_a_finished_run_that_is_delivered_again_is_not_executed_again(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker() as worker:
        run_id = await fixture.submit_noted("note")
        await fixture.ended(run_id)
        await fixture.settled()
        first = await fixture.read(run_id)
        for _ in range(3):
            await fixture.queue(job(run_id=run_id, flow_name="note", params=first.snapshot.params))
        await fixture.settled()
        # After the stop, no write of this worker can follow.
        worker.terminate()
        assert await worker.wait() == 0
    assert fixture.executions(run_id) == [1]
    assert await fixture.read(run_id) == first


async def test_a_failed_run_has_one_dead_letter_although_several_of_its_jobs_are_delivered(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker():
        failed = await fixture.admit("fail")
        wanted = job(run_id=failed.run_id, flow_name="fail")
        await fixture.queue(wanted)
        await fixture.ended(failed.run_id)
        await fixture.settled()
        await fixture.queue(wanted)
        await fixture.settled()
        letters = await fixture.dead_letters()
    assert [letter.error for letter in letters] == ["ValueError: the shop is closed"]


async def test_the_end_of_a_run_is_written_once_and_never_changed(fixture: WorkerFixture) -> None:
    frequent = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.02"}
    async with fixture.worker(concurrency=2, env=frequent) as worker:
        runs = [await fixture.submit("blink") for _ in range(20)]
        ends = {}
        for run_id in runs:
            await fixture.ended(run_id)
            ends[run_id] = await fixture.read(run_id)
        await fixture.settled()
        worker.terminate()
        assert await worker.wait() == 0
    for run_id in runs:
        assert await fixture.read(run_id) == ends[run_id]


ALLOWED = 'user: "fixture", password: "fixture"'
DENIED = 'user: "mute", password: "mute", permissions: { publish: { deny: "$JS.ACK.>" } }'


async def test_a_run_whose_ack_is_lost_is_not_executed_again(tmp_path: Path, flows: str) -> None:
    users = f"authorization {{ users: [{{ {ALLOWED} }}, {{ {DENIED} }}] }}"
    async with NatsServer(tmp_path / "nats", config=users) as server:
        everything = server.url.replace("nats://", "nats://fixture:fixture@")
        muted = server.url.replace("nats://", "nats://mute:mute@")
        async with WorkerFixture(server, tmp_path, flows, url=everything) as fixture:
            await fixture.consumer(consumer_ack_wait_sec=1, ack_progress_interval_sec=0.2)
            # The broker rejects all acknowledgements of this worker.
            async with fixture.worker(nats_url=muted, env=SHORT_LEASE) as mute:
                run_id = await fixture.submit_noted("note")
                await fixture.ended(run_id)
                first = await fixture.read(run_id)
                await eventually(fixture.deliveries, lambda count: count >= 3)
                assert await fixture.jobs_left() == 1
                mute.kill()
            async with fixture.worker(nats_url=everything, env=SHORT_LEASE):
                await fixture.settled()
            assert fixture.executions(run_id) == [1]
            assert await fixture.read(run_id) == first


async def test_a_job_stays_in_the_queue_until_its_dead_letter_is_stored(
    fixture: WorkerFixture,
) -> None:
    async with fixture.worker() as worker:
        await ask(fixture.broker.client, f"$JS.API.STREAM.DELETE.{NAMES.dlq_stream}")
        run_id = await fixture.submit("fail")
        await fixture.ended(run_id)
        await worker.wait_for_log("dead letter not published yet")
        assert await fixture.jobs_left() == 1
        await ensure_topology(fixture.broker.client, wanted_topology(TopologySettings()))
        await fixture.settled()
        (letter,) = await fixture.dead_letters()
    assert (letter.run_id, letter.reason) == (run_id, DeadLetterReason.EXECUTION_ERROR)


async def test_two_jobs_of_one_run_lead_to_one_execution(
    fixture: WorkerFixture,
) -> None:
    waiting = fixture.wait_files()
    run_id = await fixture.submit_noted("note-wait", **waiting)
    params = {"ledger": str(fixture.ledger), **waiting}
    await fixture.queue(job(run_id=run_id, flow_name="note-wait", params=params))
    async with (
        fixture.worker(env=SHORT_LEASE),
        fixture.worker(env=SHORT_LEASE),
        fixture.worker(env=SHORT_LEASE),
        fixture.worker(env=SHORT_LEASE),
    ):
        await began(waiting)
        # The second job is delivered several times.
        await eventually(fixture.deliveries, lambda count: count >= 4)
        let_go_on(waiting)
        ended = await fixture.ended(run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert fixture.executions(run_id) == [1]


async def test_a_run_that_is_cancelled_before_its_claim_is_not_executed(
    fixture: WorkerFixture,
) -> None:
    cancelled = await fixture.admit(
        "note",
        status=RunStatus.CANCELLING,
        cancel_requested_at=5.0,
        cancel_requested_by="alice",
        params={"ledger": str(fixture.ledger)},
    )
    await fixture.queue(job(run_id=cancelled.run_id, flow_name="note", params=cancelled.params))
    async with fixture.worker():
        ended = await fixture.ended(cancelled.run_id)
        await fixture.settled()
    assert (ended.status, ended.cancel_requested_by) == (RunStatus.CANCELLED, "alice")
    assert fixture.executions(cancelled.run_id) == []
    assert await fixture.dead_letters() == []


async def test_a_run_fails_after_too_many_attempts(fixture: WorkerFixture) -> None:
    tried = await fixture.admit("note", attempt=3, params={"ledger": str(fixture.ledger)})
    given_back = await fixture.admit(
        "note", attempt=3, give_backs=1, params={"ledger": str(fixture.ledger)}
    )
    async with fixture.worker(env={"PYOCO_CONSUMER_MAX_DELIVER": "3"}):
        for run in (tried, given_back):
            await fixture.queue(job(run_id=run.run_id, flow_name="note", params=run.params))
        ended = await fixture.ended(tried.run_id)
        other = await fixture.ended(given_back.run_id)
        await fixture.settled()
        (letter,) = await fixture.dead_letters()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0116")
    assert fixture.executions(tried.run_id) == []
    assert (letter.reason, letter.run_id) == (DeadLetterReason.MAX_DELIVER_EXCEEDED, tried.run_id)
    # An attempt that a stopping worker gave back does not count.
    assert (other.status, other.attempt) == (RunStatus.COMPLETED, 4)


async def test_a_run_left_by_a_worker_of_an_earlier_server_is_executed(
    fixture: WorkerFixture,
) -> None:
    left = await fixture.admit(
        "note",
        status=RunStatus.RUNNING,
        tasks={"note": TaskStatus.RUNNING},
        params={"ledger": str(fixture.ledger)},
        tag=None,
        tags=None,
        submitted_at=None,
    )
    await fixture.queue(job(run_id=left.run_id, flow_name="note", params=left.params))
    async with fixture.worker():
        ended = await fixture.ended(left.run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert fixture.executions(left.run_id) == [1]


async def test_a_job_can_carry_the_record_of_its_run(fixture: WorkerFixture) -> None:
    run = await fixture.admit("note", params={"ledger": str(fixture.ledger)})
    revision = (await fixture.read(run.run_id)).revision
    await fixture.queue(RunJob.of(run, default_tag="default").with_record(run, revision))
    async with fixture.worker():
        ended = await fixture.ended(run.run_id)
        await fixture.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert fixture.executions(run.run_id) == [1]


async def test_an_outdated_record_in_a_job_is_not_used(
    fixture: WorkerFixture,
) -> None:
    params = {"ledger": str(fixture.ledger)}
    cancelled = await fixture.admit("note", params=params)
    revision = (await fixture.read(cancelled.run_id)).revision
    await fixture.store.change(
        cancelled.run_id,
        lambda it: it.snapshot.model_copy(
            update={"status": RunStatus.CANCELLING, "cancel_requested_at": 5.0}
        ),
    )
    waiting = await fixture.admit("note", params=params)
    over = waiting.model_copy(update={"status": RunStatus.COMPLETED})
    await fixture.queue(
        RunJob.of(cancelled, default_tag="default").with_record(cancelled, revision)
    )
    await fixture.queue(
        RunJob.of(waiting, default_tag="default").with_record(
            over, (await fixture.read(waiting.run_id)).revision
        )
    )
    async with fixture.worker():
        assert (await fixture.ended(cancelled.run_id)).status is RunStatus.CANCELLED
        # Only the stored record decides whether a run has ended.
        assert (await fixture.ended(waiting.run_id)).status is RunStatus.COMPLETED
        await fixture.settled()
    assert fixture.executions(cancelled.run_id) == []
    assert fixture.executions(waiting.run_id) == [1]
