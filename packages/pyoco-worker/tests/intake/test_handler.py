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
from worker_bench import NAMES, WorkerBench, began, let_go_on

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
    bench: WorkerBench,
) -> None:
    async with bench.worker() as worker:
        for body in MALFORMED.values():
            await bench.queue(body)
        good = await bench.submit("greet")
        assert (await bench.ended(good)).status is RunStatus.COMPLETED
        await bench.settled()
        letters = await bench.dead_letters()
        assert worker.is_running
    assert [letter.reason for letter in letters] == [DeadLetterReason.INVALID_JOB] * len(MALFORMED)
    assert {letter.err_id for letter in letters} == {"ERR-PYOCO-0012"}
    assert {letter.tag for letter in letters} == {"default"}
    assert {letter.subject for letter in letters} == {NAMES.work("default")}


async def test_a_job_with_headers_of_a_broker_status_message_becomes_a_dead_letter(
    bench: WorkerBench,
) -> None:
    statuses = ("100", "404", "408", "503")
    async with bench.worker(env=SHORT_LEASE):
        for status in statuses:
            await bench.queue(b"", headers={"Status": status, "Description": "made up"})
        await bench.settled()
        letters = await bench.dead_letters()
        assert [letter.reason for letter in letters] == ["invalid_job"] * len(statuses)
        assert (await bench.ended(await bench.submit("noop"))).status is RunStatus.COMPLETED


async def test_a_job_without_a_run_becomes_a_dead_letter_at_its_second_delivery(
    bench: WorkerBench,
) -> None:
    async with bench.worker():
        orphan = job(flow_name="greet")
        await bench.queue(orphan)
        await bench.settled()
        (letter,) = await bench.dead_letters()
        assert (letter.reason, letter.run_id) == (DeadLetterReason.RUN_ABSENT, orphan.run_id)
        assert letter.num_delivered == 2
        assert await bench.store.read(orphan.run_id) is None


async def test_a_dead_letter_has_the_tenant_of_its_run(bench: WorkerBench) -> None:
    def malformed(**fields: object) -> bytes:
        return json.dumps(job_json(tags=7, **fields)).encode()

    failing, waiting = [
        await bench.admit(name, tenant_id="acme", api_key_id="k1") for name in ("fail", "greet")
    ]
    orphan = job(flow_name="greet", tenant_id="globex")
    unknown = new_run_id()
    async with bench.worker():
        await bench.queue(RunJob.of(failing, default_tag="default"))
        await bench.queue(orphan)
        # The tenant comes from the record, not from the message.
        await bench.queue(malformed(run_id=waiting.run_id, tenant_id="globex"))
        await bench.queue(malformed(run_id=unknown, tenant_id="globex"))
        await bench.queue(malformed(run_id=None, tenant_id=["globex"]))
        ended = await bench.ended(failing.run_id)
        await bench.settled()
        letters = {letter.run_id: letter.tenant_id for letter in await bench.dead_letters()}
    assert (ended.tenant_id, ended.api_key_id) == ("acme", "k1")
    assert letters == {
        failing.run_id: "acme",
        waiting.run_id: "acme",
        orphan.run_id: "globex",
        unknown: "globex",
        None: None,
    }


async def test_a_run_whose_record_is_stored_after_its_job_is_executed(bench: WorkerBench) -> None:
    async with bench.worker():
        early = job(flow_name="note", params={"ledger": str(bench.ledger)})
        await bench.queue(early)
        await eventually(bench.deliveries, 1)
        await bench.admit("note", run_id=early.run_id, params=early.params)
        assert (await bench.ended(early.run_id)).status is RunStatus.COMPLETED
        await bench.settled()
    assert bench.executions(early.run_id) == [1]


async def test_an_unreadable_record_does_not_stop_the_queue(bench: WorkerBench) -> None:
    async with bench.worker() as worker:
        broken = job(flow_name="greet")
        await ask(bench.broker.client, NAMES.run(broken.run_id), b'{"status": "?"}')
        await bench.queue(broken)
        good = await bench.submit("greet")
        assert (await bench.ended(good)).status is RunStatus.COMPLETED
        await bench.settled()
        assert [letter.run_id for letter in await bench.dead_letters()] == [broken.run_id]
        assert worker.is_running


async def test_a_finished_run_that_is_delivered_again_is_not_executed_again(
    bench: WorkerBench,
) -> None:
    async with bench.worker() as worker:
        run_id = await bench.submit_noted("note")
        await bench.ended(run_id)
        await bench.settled()
        first = await bench.read(run_id)
        for _ in range(3):
            await bench.queue(job(run_id=run_id, flow_name="note", params=first.snapshot.params))
        await bench.settled()
        # After the stop, no write of this worker can follow.
        worker.terminate()
        assert await worker.wait() == 0
    assert bench.executions(run_id) == [1]
    assert await bench.read(run_id) == first


async def test_dead_letters_of_a_failed_run_that_is_delivered_again_are_equal(
    bench: WorkerBench,
) -> None:
    async with bench.worker():
        failed = await bench.admit("fail")
        wanted = job(run_id=failed.run_id, flow_name="fail")
        await bench.queue(wanted)
        await bench.ended(failed.run_id)
        await bench.settled()
        await bench.queue(wanted)
        await bench.settled()
        letters = await bench.dead_letters()
    # The second job has a dead letter of its own, with the same content.
    assert {letter.timestamp for letter in letters} == {letters[0].timestamp}
    assert {letter.error for letter in letters} == {"ValueError: the shop is closed"}


async def test_the_end_of_a_run_is_written_once_and_never_changed(bench: WorkerBench) -> None:
    frequent = {"PYOCO_RUN_HEARTBEAT_INTERVAL_SEC": "0.02"}
    async with bench.worker(concurrency=2, env=frequent) as worker:
        runs = [await bench.submit("blink") for _ in range(20)]
        ends = {}
        for run_id in runs:
            await bench.ended(run_id)
            ends[run_id] = await bench.read(run_id)
        await bench.settled()
        worker.terminate()
        assert await worker.wait() == 0
    for run_id in runs:
        assert await bench.read(run_id) == ends[run_id]


ALLOWED = 'user: "bench", password: "bench"'
DENIED = 'user: "mute", password: "mute", permissions: { publish: { deny: "$JS.ACK.>" } }'


async def test_a_run_whose_ack_is_lost_is_not_executed_again(tmp_path: Path, flows: str) -> None:
    users = f"authorization {{ users: [{{ {ALLOWED} }}, {{ {DENIED} }}] }}"
    async with NatsServer(tmp_path / "nats", config=users) as server:
        everything = server.url.replace("nats://", "nats://bench:bench@")
        muted = server.url.replace("nats://", "nats://mute:mute@")
        async with WorkerBench(server, tmp_path, flows, url=everything) as bench:
            await bench.consumer(consumer_ack_wait_sec=1, ack_progress_interval_sec=0.2)
            # The broker rejects all acknowledgements of this worker.
            async with bench.worker(nats_url=muted, env=SHORT_LEASE) as mute:
                run_id = await bench.submit_noted("note")
                await bench.ended(run_id)
                first = await bench.read(run_id)
                await eventually(bench.deliveries, lambda count: count >= 3)
                assert await bench.jobs_left() == 1
                mute.kill()
            async with bench.worker(nats_url=everything, env=SHORT_LEASE):
                await bench.settled()
            assert bench.executions(run_id) == [1]
            assert await bench.read(run_id) == first


async def test_a_job_stays_in_the_queue_until_its_dead_letter_is_stored(bench: WorkerBench) -> None:
    async with bench.worker() as worker:
        await ask(bench.broker.client, f"$JS.API.STREAM.DELETE.{NAMES.dlq_stream}")
        run_id = await bench.submit("fail")
        await bench.ended(run_id)
        await worker.wait_for_log("dead letter not published yet")
        assert await bench.jobs_left() == 1
        await ensure_topology(bench.broker.client, wanted_topology(TopologySettings()))
        await bench.settled()
        (letter,) = await bench.dead_letters()
    assert (letter.run_id, letter.reason) == (run_id, DeadLetterReason.EXECUTION_ERROR)


async def test_two_jobs_of_one_run_lead_to_one_execution(
    bench: WorkerBench,
) -> None:
    waiting = bench.wait_files()
    run_id = await bench.submit_noted("note-wait", **waiting)
    params = {"ledger": str(bench.ledger), **waiting}
    await bench.queue(job(run_id=run_id, flow_name="note-wait", params=params))
    async with (
        bench.worker(env=SHORT_LEASE),
        bench.worker(env=SHORT_LEASE),
        bench.worker(env=SHORT_LEASE),
        bench.worker(env=SHORT_LEASE),
    ):
        await began(waiting)
        # The second job is delivered several times.
        await eventually(bench.deliveries, lambda count: count >= 4)
        let_go_on(waiting)
        ended = await bench.ended(run_id)
        await bench.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert bench.executions(run_id) == [1]


async def test_a_run_that_is_cancelled_before_its_claim_is_not_executed(bench: WorkerBench) -> None:
    cancelled = await bench.admit(
        "note",
        status=RunStatus.CANCELLING,
        cancel_requested_at=5.0,
        cancel_requested_by="alice",
        params={"ledger": str(bench.ledger)},
    )
    await bench.queue(job(run_id=cancelled.run_id, flow_name="note", params=cancelled.params))
    async with bench.worker():
        ended = await bench.ended(cancelled.run_id)
        await bench.settled()
    assert (ended.status, ended.cancel_requested_by) == (RunStatus.CANCELLED, "alice")
    assert bench.executions(cancelled.run_id) == []
    assert await bench.dead_letters() == []


async def test_a_run_fails_after_too_many_attempts(bench: WorkerBench) -> None:
    tried = await bench.admit("note", attempt=3, params={"ledger": str(bench.ledger)})
    given_back = await bench.admit(
        "note", attempt=3, give_backs=1, params={"ledger": str(bench.ledger)}
    )
    async with bench.worker(env={"PYOCO_CONSUMER_MAX_DELIVER": "3"}):
        for run in (tried, given_back):
            await bench.queue(job(run_id=run.run_id, flow_name="note", params=run.params))
        ended = await bench.ended(tried.run_id)
        other = await bench.ended(given_back.run_id)
        await bench.settled()
        (letter,) = await bench.dead_letters()
    assert (ended.status, ended.err_id) == (RunStatus.FAILED, "ERR-PYOCO-0116")
    assert bench.executions(tried.run_id) == []
    assert (letter.reason, letter.run_id) == (DeadLetterReason.MAX_DELIVER_EXCEEDED, tried.run_id)
    # An attempt that a stopping worker gave back does not count.
    assert (other.status, other.attempt) == (RunStatus.COMPLETED, 4)


async def test_a_run_left_by_a_worker_of_an_earlier_server_is_executed(bench: WorkerBench) -> None:
    left = await bench.admit(
        "note",
        status=RunStatus.RUNNING,
        tasks={"note": TaskStatus.RUNNING},
        params={"ledger": str(bench.ledger)},
        tag=None,
        tags=None,
        submitted_at=None,
    )
    await bench.queue(job(run_id=left.run_id, flow_name="note", params=left.params))
    async with bench.worker():
        ended = await bench.ended(left.run_id)
        await bench.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert bench.executions(left.run_id) == [1]


async def test_a_job_can_carry_the_record_of_its_run(bench: WorkerBench) -> None:
    run = await bench.admit("note", params={"ledger": str(bench.ledger)})
    revision = (await bench.read(run.run_id)).revision
    await bench.queue(RunJob.of(run, default_tag="default").with_record(run, revision))
    async with bench.worker():
        ended = await bench.ended(run.run_id)
        await bench.settled()
    assert (ended.status, ended.attempt) == (RunStatus.COMPLETED, 1)
    assert bench.executions(run.run_id) == [1]


async def test_an_outdated_record_in_a_job_is_not_used(
    bench: WorkerBench,
) -> None:
    params = {"ledger": str(bench.ledger)}
    cancelled = await bench.admit("note", params=params)
    revision = (await bench.read(cancelled.run_id)).revision
    await bench.store.change(
        cancelled.run_id,
        lambda it: it.snapshot.model_copy(
            update={"status": RunStatus.CANCELLING, "cancel_requested_at": 5.0}
        ),
    )
    waiting = await bench.admit("note", params=params)
    over = waiting.model_copy(update={"status": RunStatus.COMPLETED})
    await bench.queue(RunJob.of(cancelled, default_tag="default").with_record(cancelled, revision))
    await bench.queue(
        RunJob.of(waiting, default_tag="default").with_record(
            over, (await bench.read(waiting.run_id)).revision
        )
    )
    async with bench.worker():
        assert (await bench.ended(cancelled.run_id)).status is RunStatus.CANCELLED
        # Only the stored record decides whether a run has ended.
        assert (await bench.ended(waiting.run_id)).status is RunStatus.COMPLETED
        await bench.settled()
    assert bench.executions(cancelled.run_id) == []
    assert bench.executions(waiting.run_id) == [1]
