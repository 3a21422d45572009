"""The reaper against a real broker: each abandoned run comes to one end."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import anyio
import pytest

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.job_queue import JobQueue
from pyoco_gateway.runs.reaper import loop
from pyoco_gateway.runs.reaper.loop import Reaper
from pyoco_gateway.runs.reaper.rebuilt_jobs import RunJobs
from pyoco_gateway.runs.reaper.rules import ReaperAction, ReaperTimeouts
from pyoco_gateway.runs.reaper.tracked_runs import TrackedRuns
from pyoco_protocol import subjects
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import BucketWatch
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.ensure import ensure_topology
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.jetstream.workflow_texts import WorkflowTexts
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import wanted_topology
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.foreign_records import put_record
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()
HOUR = 3600.0


@asynccontextmanager
async def broker_at(url: str) -> AsyncGenerator[Broker]:
    async def prepare(opened: Broker) -> None:
        await ensure_topology(opened.client, wanted_topology(TopologySettings()))

    async with open_broker(BrokerSettings(nats_url=url), name="tests", prepare=prepare) as broker:
        await broker.wait_until_up()
        yield broker


@asynccontextmanager
async def reaping(
    url: str,
    timeouts: ReaperTimeouts,
    *,
    is_confirmed: Callable[[RunSnapshot], bool] = lambda _: False,
    retention_sec: int = 3600,
) -> AsyncGenerator[Reaper]:
    """A reaper as a gateway runs it, with its own connection."""
    async with broker_at(url) as broker, anyio.create_task_group() as tasks:
        runs = TrackedRuns(timeouts)
        reaper = Reaper(
            broker=broker,
            store=RunStore(broker, NAMES, retention_sec=retention_sec),
            queue=JobQueue(broker, NAMES),
            runs=runs,
            timeouts=timeouts,
            jobs=RunJobs(WorkflowTexts(broker, NAMES, retention_sec=retention_sec), "default"),
            is_confirmed=is_confirmed,
        )
        tasks.start_soon(BucketWatch(broker, NAMES.runs_bucket, RunFeed([runs])).run)
        tasks.start_soon(reaper.run)
        yield reaper
        tasks.cancel_scope.cancel()


@pytest.fixture
async def broker(nats_server: NatsServer) -> AsyncGenerator[Broker]:
    async with broker_at(nats_server.url) as opened:
        yield opened


@pytest.fixture
def runs(broker: Broker) -> RunStore:
    return RunStore(broker, NAMES, retention_sec=0)


@pytest.fixture(autouse=True)
def _haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_STEP_SEC", 0.02)


async def status_of(runs: RunStore, run_id: str) -> RunStatus:
    stored = await runs.read(run_id)
    assert stored is not None
    return stored.snapshot.status


def owned(**fields: Any) -> RunSnapshot:
    return snapshot(
        **{"worker_id": "w1", "instance_id": "life", "attempt": 1, "job_seq": 7, **fields}
    )


async def assert_unchanged(runs: RunStore, run_id: str, revision: int) -> None:
    """Assert that the record of the run is unchanged."""
    stored = await runs.read(run_id)
    assert stored is not None
    assert stored.revision == revision


async def test_a_cancelled_run_without_a_worker_is_ended(
    nats_server: NatsServer, runs: RunStore, broker: Broker
) -> None:
    run = snapshot(
        status="CANCELLING", cancel_requested_at=1.0, cancel_reason="why", tasks={"a": "PENDING"}
    )
    revision = (await put_record(broker, run)).revision
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, HOUR, unowned_cancel=0.1)) as reaper:
        await eventually(lambda: status_of(runs, run.run_id), RunStatus.CANCELLED)
        await eventually(lambda: reaper.action_counts[ReaperAction.FINISH_CANCELLED], 1)
        await eventually(lambda: len(reaper.runs), 0)
    ended = await runs.read(run.run_id)
    assert ended is not None
    assert ended.revision == revision + 1
    # No worker had claimed it, so there is none to fence.
    assert (ended.snapshot.attempt, ended.snapshot.cancel_reason) == (0, "why")
    assert ended.snapshot.tasks == {"a": "CANCELLED"}
    assert ended.snapshot.end_time is not None
    # It expires after its retention time.
    read = subjects.last_message(subjects.kv_stream(NAMES.runs_bucket))
    answer = await ask(
        broker.client, read, b'{"last_by_subj": "%s"}' % NAMES.run(run.run_id).encode()
    )
    assert "hdrs" in answer["message"]


async def test_a_claimed_run_past_its_grace_is_ended_and_its_worker_fenced(
    nats_server: NatsServer, runs: RunStore, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    run = owned(status="CANCELLING", cancel_requested_at=1.0)
    await put_record(broker, run)
    timeouts = ReaperTimeouts(cancel_grace=0.1, heartbeat=HOUR, cancel_slack=0.1)
    async with reaping(nats_server.url, timeouts):
        await eventually(lambda: status_of(runs, run.run_id), RunStatus.CANCELLED)
    ended = await runs.read(run.run_id)
    assert ended is not None
    assert ended.snapshot.attempt == 2
    (told,) = [each for each in caplog.records if getattr(each, "err_id", "") == "ERR-PYOCO-0021"]
    assert (told.levelno, getattr(told, "run_id", "")) == (logging.WARNING, run.run_id)
    assert getattr(told, "worker_id", "") == "w1"


async def test_a_live_worker_gets_all_of_its_grace(
    nats_server: NatsServer, runs: RunStore, broker: Broker
) -> None:
    """Heartbeats prevent the timeout for silence, and do not extend the grace."""
    run = owned(status="CANCELLING", cancel_requested_at=1.0)
    await put_record(broker, run)
    other = snapshot(status="CANCELLING")
    timeouts = ReaperTimeouts(
        cancel_grace=1.0, heartbeat=0.05, cancel_slack=0.5, unowned_cancel=0.8
    )
    async with reaping(nats_server.url, timeouts) as reaper:
        await eventually(lambda: len(reaper.runs), 1)
        await put_record(broker, other)
        while await status_of(runs, other.run_id) is not RunStatus.CANCELLED:
            # The timeout for silence is 0.5 s; the other run is due after 0.8 s.
            stored = await runs.read(run.run_id)
            assert stored is not None
            assert stored.snapshot.status is RunStatus.CANCELLING
            await runs.replace(stored, stored.snapshot)
            await anyio.sleep(0.05)
        await eventually(lambda: status_of(runs, run.run_id), RunStatus.CANCELLED)
    ended = await runs.read(run.run_id)
    assert ended is not None
    assert ended.snapshot.attempt == 2


async def test_one_of_several_gateways_ends_a_cancelled_run(
    nats_server: NatsServer, runs: RunStore, broker: Broker
) -> None:
    cancelled = [snapshot(status="CANCELLING") for _ in range(20)]
    for run in cancelled:
        await put_record(broker, run)
    timeouts = ReaperTimeouts(HOUR, HOUR, unowned_cancel=0.2)
    async with (
        reaping(nats_server.url, timeouts) as one,
        reaping(nats_server.url, timeouts) as other,
    ):
        for run in cancelled:
            await eventually(partial(status_of, runs, run.run_id), RunStatus.CANCELLED)
        await eventually(lambda: len(one.runs) + len(other.runs), 0)
        assert (
            one.action_counts[ReaperAction.FINISH_CANCELLED]
            + other.action_counts[ReaperAction.FINISH_CANCELLED]
            == 20
        )
    newest = [stored for run in cancelled if (stored := await runs.read(run.run_id))]
    # Twenty creates and twenty ends, and no other write.
    assert sorted(stored.revision for stored in newest) == list(range(21, 41))


async def test_several_gateways_publish_one_second_job_for_a_silent_run(
    nats_server: NatsServer, runs: RunStore, broker: Broker, store: Any
) -> None:
    run = owned(status="RUNNING", tag="gpu", params={"x": 1})
    revision = (await put_record(broker, run)).revision
    timeouts = ReaperTimeouts(HOUR, heartbeat=0.02)
    async with (
        reaping(nats_server.url, timeouts) as one,
        reaping(nats_server.url, timeouts) as two,
        reaping(nats_server.url, timeouts) as three,
    ):
        reapers = (one, two, three)
        await eventually(
            lambda: [reaper.action_counts[ReaperAction.HAND_OVER] for reaper in reapers], [1, 1, 1]
        )
    (job,) = await store.jobs()
    assert job.subject == "pyoco.work.gpu"
    assert job.body["still_at_revision"] == revision
    assert (job.body["run_id"], job.body["params"]) == (run.run_id, {"x": 1})
    # Only the worker of the run writes its record; the reaper leaves it unchanged.
    await assert_unchanged(runs, run.run_id, revision)


async def test_a_run_that_falls_silent_again_gets_another_job(
    nats_server: NatsServer, runs: RunStore, broker: Broker, store: Any
) -> None:
    run = owned(status="RUNNING")
    first = await put_record(broker, run)
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, heartbeat=0.02)) as reaper:
        await eventually(lambda: reaper.action_counts[ReaperAction.HAND_OVER], 1)
        second = await runs.replace(first, run.model_copy(update={"attempt": 2}))
        await eventually(lambda: reaper.action_counts[ReaperAction.HAND_OVER], 2)
    assert [job.body["still_at_revision"] for job in await store.jobs()] == [
        first.revision,
        second.revision,
    ]


async def test_an_unconfirmed_run_is_published_again_once(
    nats_server: NatsServer, runs: RunStore, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = snapshot(tag="gpu", params={"secret": "SECRET"}, tenant_id="acme", api_key_id="k1")
    await runs.create(run)
    timeouts = ReaperTimeouts(HOUR, HOUR, unconfirmed=0.1)
    async with (
        reaping(nats_server.url, timeouts) as one,
        reaping(nats_server.url, timeouts) as other,
    ):
        await eventually(
            lambda: (
                one.action_counts[ReaperAction.QUEUE_AGAIN]
                + other.action_counts[ReaperAction.QUEUE_AGAIN]
            ),
            lambda count: count >= 1,
        )
        kept = await eventually(
            lambda: runs.read(run.run_id),
            lambda found: found.snapshot.queued_again_at is not None,
        )
    (job,) = await store.jobs()
    assert job.headers["Nats-Msg-Id"] == f"{run.run_id}:{run.submitted_at}"
    assert job.body == {
        "run_id": run.run_id,
        "flow_name": "hello",
        "tag": "gpu",
        "tags": ["default"],
        "params": {"secret": "SECRET"},
        "submitted_at": run.submitted_at,
        "tenant_id": "acme",
        "api_key_id": "k1",
    }
    assert kept is not None
    assert kept.snapshot.status is RunStatus.PENDING
    assert "SECRET" not in caplog.text


async def test_a_confirmed_run_is_not_published_again(
    nats_server: NatsServer, runs: RunStore, store: Any
) -> None:
    sure, unsure = snapshot(), snapshot()
    revision = (await runs.create(sure)).revision
    await runs.create(unsure)
    async with reaping(
        nats_server.url,
        ReaperTimeouts(HOUR, HOUR, unconfirmed=0.1),
        is_confirmed=lambda run: run.run_id == sure.run_id,
    ) as reaper:
        await eventually(lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], 1)
    assert [job.body["run_id"] for job in await store.jobs()] == [unsure.run_id]
    await assert_unchanged(runs, sure.run_id, revision)


async def test_a_run_that_is_claimed_meanwhile_is_left_unchanged(
    nats_server: NatsServer, runs: RunStore, store: Any
) -> None:
    run, marker = snapshot(), snapshot()
    created = await runs.create(run)
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, HOUR, unconfirmed=0.5)) as reaper:
        await eventually(lambda: len(reaper.runs), 1)
        await runs.replace(created, owned(run_id=run.run_id, status="RUNNING"))
        await runs.create(marker)
        await eventually(lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], 1)
    assert [job.body["run_id"] for job in await store.jobs()] == [marker.run_id]


# The watch may miss the short outage, and notices the long one.
@pytest.mark.parametrize("outage_sec", [1.0, 2.5])
async def test_an_outage_longer_than_the_silence_does_not_hand_over_a_live_run(
    nats_server: NatsServer, runs: RunStore, broker: Broker, store: Any, outage_sec: float
) -> None:
    run = owned(status="RUNNING")
    await put_record(broker, run)
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, heartbeat=0.08)) as reaper:
        await eventually(lambda: len(reaper.runs), 1)
        # The broker stops before the silence of 0.8 s has passed, and stays away for longer.
        nats_server.kill()
        await eventually(lambda: reaper.broker.is_up, False)
        await anyio.sleep(outage_sec)
        await nats_server.restart()
        await broker.wait_until_up()
        await eventually(lambda: reaper.broker.is_up, True)
        # The worker needs a moment as well until it can write again.
        for _ in range(10):
            await anyio.sleep(0.1)
            assert reaper.action_counts[ReaperAction.HAND_OVER] == 0
            await runs.change(run.run_id, lambda stored: stored.snapshot)
        assert await store.jobs() == []
        # Without further heartbeats the run is handed over.
        await eventually(lambda: reaper.action_counts[ReaperAction.HAND_OVER], 1)


async def test_a_frozen_gateway_restarts_the_silence_of_all_runs(
    nats_server: NatsServer, runs: RunStore, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_FROZEN_SEC", 0.5)
    minutes = count(step=600.0)
    run = owned(status="RUNNING")
    await put_record(broker, run)
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, heartbeat=HOUR)) as reaper:
        await eventually(lambda: len(reaper.runs), 1)
        heard: list[str] = []
        monkeypatch.setattr(reaper.runs, "on_resumed", lambda: heard.append("resumed"))
        # Ten minutes pass between two readings of the clock, as for a stopped process.
        monkeypatch.setattr(loop, "time", _Clock(lambda: time.monotonic() + next(minutes)))
        await eventually(lambda: heard[:1], ["resumed"])
    assert reaper.action_counts[ReaperAction.HAND_OVER] == 0


class _Clock:
    """Replaces the module `time`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic


@pytest.mark.parametrize(
    "fields",
    [
        {"tag": "a.b"},
        {"tags": [f"t{number}" for number in range(100)]},
        {"flow_name": "x" * 1000},
        {"status": "PENDING", "flow_name": ""},
    ],
)
async def test_a_record_that_makes_no_job_does_not_stop_the_reaper(
    nats_server: NatsServer, runs: RunStore, broker: Broker, store: Any, fields: dict[str, Any]
) -> None:
    """Another program may have written it."""
    odd = snapshot(**{"status": "RUNNING", **fields})
    good, cancelled = owned(status="RUNNING"), snapshot(status="CANCELLING")
    await put_record(broker, odd)
    await put_record(broker, good)
    await put_record(broker, cancelled)
    timeouts = ReaperTimeouts(HOUR, heartbeat=0.02, unconfirmed=0.1, unowned_cancel=0.1)
    async with reaping(nats_server.url, timeouts) as reaper:
        await eventually(lambda: reaper.action_counts[ReaperAction.HAND_OVER], 1)
        await eventually(lambda: status_of(runs, cancelled.run_id), RunStatus.CANCELLED)
    assert [job.body["run_id"] for job in await store.jobs()] == [good.run_id]


async def test_an_unreadable_record_does_not_stop_the_reaper(
    nats_server: NatsServer, runs: RunStore, broker: Broker
) -> None:
    odd, cancelled = new_run_id(), snapshot(status="CANCELLING")
    # Enough for an outline, not enough for a snapshot.
    await ask(
        broker.client, NAMES.run(odd), b'{"run_id": "%s", "status": "CANCELLING"}' % odd.encode()
    )
    await put_record(broker, cancelled)
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, HOUR, unowned_cancel=0.1)):
        await eventually(lambda: status_of(runs, cancelled.run_id), RunStatus.CANCELLED)


async def test_many_runs_due_for_one_action_do_not_delay_a_cancel(
    nats_server: NatsServer, runs: RunStore, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_MAX_PER_STEP", 5)
    async with anyio.create_task_group() as tasks:
        for _ in range(300):
            tasks.start_soon(runs.create, snapshot())
    cancelled = snapshot(status="CANCELLING")
    timeouts = ReaperTimeouts(HOUR, HOUR, unconfirmed=0.3, unowned_cancel=0.3)
    async with reaping(nats_server.url, timeouts) as reaper:
        await eventually(
            lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], lambda count: count > 0
        )
        await put_record(broker, cancelled)
        await eventually(lambda: status_of(runs, cancelled.run_id), RunStatus.CANCELLED)
        assert reaper.action_counts[ReaperAction.QUEUE_AGAIN] < 300
        await eventually(lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], 300, 30)


async def test_an_action_that_the_broker_refused_is_tried_again(
    nats_server: NatsServer,
    runs: RunStore,
    store: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(loop, "_RETRY_SEC", 0.1)
    run = snapshot()
    await runs.create(run)
    full = {"name": "PYOCO_WORK", "subjects": ["pyoco.work.>"], "retention": "workqueue"}
    await store.js.update_stream(**full, discard="new", max_msgs=1)
    await store.js.publish("pyoco.work.other", b"{}")
    async with reaping(nats_server.url, ReaperTimeouts(HOUR, HOUR, unconfirmed=0.1)) as reaper:
        await eventually(lambda: caplog.messages.count("run not reaped yet"), lambda n: n >= 2)
        assert reaper.action_counts[ReaperAction.QUEUE_AGAIN] == 0
        await store.js.update_stream(**full, discard="new", max_msgs=-1)
        await eventually(lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], 1)
    assert (await store.jobs())[-1].body["run_id"] == run.run_id


async def test_a_run_of_a_workflow_file_is_queued_again_with_its_text(
    nats_server: NatsServer, broker: Broker, runs: RunStore
) -> None:
    text = "flow: {graph: a}\ntasks: {a: {use: b}}"
    sha256 = await WorkflowTexts(broker, NAMES, retention_sec=3600).put(text, now=time.time())
    run = snapshot(workflow_yaml_sha256=sha256, workflow_yaml_bytes=len(text))
    await runs.create(run)
    timeouts = ReaperTimeouts(cancel_grace=HOUR, heartbeat=HOUR, unconfirmed=0.05)
    async with reaping(nats_server.url, timeouts) as reaper:
        await eventually(lambda: reaper.action_counts[ReaperAction.QUEUE_AGAIN], 1)
    message = await broker.client.jetstream().get_last_msg(NAMES.work_stream, NAMES.work("default"))
    job = RunJob.from_bytes(message.data or b"")
    assert (job.workflow_yaml, job.workflow_yaml_sha256) == (text, sha256)


async def test_a_run_whose_workflow_is_gone_is_left_to_the_job_it_has(
    nats_server: NatsServer, runs: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    run = snapshot(workflow_yaml_sha256="0" * 64)
    await runs.create(run)
    timeouts = ReaperTimeouts(cancel_grace=HOUR, heartbeat=HOUR, unconfirmed=0.05)
    async with reaping(nats_server.url, timeouts) as reaper:
        await eventually(lambda: "its workflow is gone" in caplog.text, True)
        assert not reaper.action_counts
    stored = await runs.read(run.run_id)
    assert stored is not None
    assert stored.snapshot.status is RunStatus.PENDING
