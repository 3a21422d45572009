"""Run records in a real bucket: one writer wins each revision, and none overwrites blindly."""

from collections import Counter
from collections.abc import AsyncGenerator

import anyio
import pytest

from pyoco_protocol import subjects
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import RefusedError, ask
from pyoco_protocol.jetstream.run_store import ConflictError, RunStore, StoredRun
from pyoco_protocol.problems import BrokerUnavailableError, SnapshotUnreadableError
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.settings import BrokerSettings
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

NAMES = Names()


@pytest.fixture
def store(broker: Broker) -> RunStore:
    return RunStore(broker, NAMES, retention_sec=1)


@pytest.fixture
async def other_store(broker: Broker, nats_server: NatsServer) -> AsyncGenerator[RunStore]:
    """A second store on the same bucket, with its own connection."""
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="other") as other:
        await other.wait_until_up()
        yield RunStore(other, NAMES, retention_sec=1)


def running(of: RunSnapshot, **fields: object) -> RunSnapshot:
    return of.model_copy(update={"status": RunStatus.RUNNING, **fields})


async def test_a_created_run_is_there_at_once(store: RunStore, other_store: RunStore) -> None:
    run = snapshot(params={"name": "世界"})
    created = await store.create(run)
    assert created.snapshot == run
    assert await store.read(run.run_id) == created
    assert await other_store.read(run.run_id) == created


async def test_an_unknown_run_is_not_found(store: RunStore) -> None:
    assert await store.read(snapshot().run_id) is None
    assert await store.change(snapshot().run_id, lambda stored: stored.snapshot) is None


async def test_a_run_is_created_once(store: RunStore) -> None:
    run = snapshot()
    created = await store.create(run)
    with pytest.raises(ConflictError):
        await store.create(run.model_copy(update={"error": "another"}))
    assert await store.read(run.run_id) == created


async def test_a_replaced_run_gets_a_new_revision(store: RunStore) -> None:
    run = snapshot()
    first = await store.create(run)
    second = await store.replace(first, running(run))
    assert second.revision > first.revision
    assert second.snapshot == running(run)
    assert await store.read(run.run_id) == second


async def test_a_write_at_another_than_the_latest_revision_is_refused(store: RunStore) -> None:
    run = snapshot()
    first = await store.create(run)
    second = await store.replace(first, running(run, attempt=1))
    with pytest.raises(ConflictError):
        await store.replace(first, running(run, attempt=9))
    with pytest.raises(ConflictError):
        await store.withdraw(first)
    ended = run.model_copy(update={"status": RunStatus.COMPLETED})
    with pytest.raises(ConflictError):
        await store.delete(StoredRun(ended, first.revision))
    with pytest.raises(ConflictError):
        await store.replace(StoredRun(run, second.revision + 1), running(run, attempt=9))
    assert await store.read(run.run_id) == second
    assert second.snapshot == running(run, attempt=1)


async def test_a_write_of_one_run_leaves_the_others_unchanged(store: RunStore) -> None:
    one, other = snapshot(), snapshot()
    first = await store.create(one)
    await store.create(other)
    await store.replace(first, running(one))
    found = await store.read(other.run_id)
    assert found is not None
    assert found.snapshot.status is RunStatus.PENDING


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_removed_run_can_be_created_again(store: RunStore, has_ended: bool) -> None:
    run = snapshot()
    created = await store.create(run)
    if has_ended:
        ended = await store.replace(created, run.model_copy(update={"status": RunStatus.FAILED}))
        await store.delete(ended)
    else:
        await store.withdraw(created)
    assert await store.read(run.run_id) is None
    with pytest.raises(ConflictError):
        await store.replace(created, run)
    again = await store.create(run)
    assert again.snapshot == run
    assert await store.read(run.run_id) == again


async def test_an_ended_run_expires_after_its_retention_and_can_be_created_again(
    store: RunStore, broker: Broker
) -> None:
    run = snapshot()
    ended = run.model_copy(update={"status": RunStatus.COMPLETED})
    stored = await store.replace(await store.create(run), ended)
    assert stored.snapshot == ended
    assert await store.read(run.run_id) == stored
    await eventually(lambda: store.read(run.run_id), None)
    # The record is replaced by a marker, for watchers of the bucket.
    read_marker = subjects.last_message(subjects.kv_stream(NAMES.runs_bucket))
    request = b'{"last_by_subj": "%s"}' % NAMES.run(run.run_id).encode()
    marker = await ask(broker.client, read_marker, request)
    assert int(marker["message"]["seq"]) > stored.revision
    again = await store.create(run)
    assert again.snapshot == run
    assert await store.read(run.run_id) == again


async def test_a_write_without_a_ttl_keeps_a_run_that_would_have_expired(
    store: RunStore, broker: Broker
) -> None:
    kept, expiring = snapshot(), snapshot()
    bucket = Bucket(broker, NAMES.runs_bucket)
    created = await store.create(kept)
    revision = await bucket.replace(
        kept.run_id, running(kept).to_bytes(), created.revision, ttl_sec=1
    )
    await store.replace(StoredRun(running(kept), revision), running(kept, attempt=2))
    ended = expiring.model_copy(update={"status": RunStatus.COMPLETED})
    await store.replace(await store.create(expiring), ended)
    # The TTL of the first run has passed by then as well.
    await eventually(lambda: store.read(expiring.run_id), None)
    found = await store.read(kept.run_id)
    assert found is not None
    assert found.snapshot.attempt == 2


async def test_a_bucket_without_ttls_still_stores_the_end_of_a_run(
    nats_server: NatsServer,
) -> None:
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="tests") as broker:
        await broker.wait_until_up()
        # As a server without support for TTLs has created it.
        await ask(
            broker.client,
            f"$JS.API.STREAM.CREATE.{subjects.kv_stream(NAMES.runs_bucket)}",
            b'{"name": "KV_pyoco_runs", "subjects": ["$KV.pyoco_runs.>"], "retention": "limits",'
            b' "storage": "file", "num_replicas": 1, "max_msgs_per_subject": 1,'
            b' "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true}',
        )
        store = RunStore(broker, NAMES, retention_sec=60)
        run = snapshot()
        created = await store.create(run)
        ended = run.model_copy(update={"status": RunStatus.COMPLETED})
        stored = await store.replace(created, ended)
        assert stored.snapshot == ended
        assert await store.read(run.run_id) == stored


async def try_replace(
    store: RunStore, stored: StoredRun, run: RunSnapshot, won: list[StoredRun]
) -> None:
    try:
        won.append(await store.replace(stored, run))
    except ConflictError:
        return


async def test_of_two_writers_one_wins_each_revision(
    store: RunStore, other_store: RunStore
) -> None:
    run = snapshot()
    latest = await store.create(run)
    for attempt in range(1, 51):
        ones = running(run, worker_id="one", attempt=attempt)
        others = running(run, worker_id="other", attempt=attempt)
        one_won: list[StoredRun] = []
        other_won: list[StoredRun] = []
        async with anyio.create_task_group() as racing:
            racing.start_soon(try_replace, store, latest, ones, one_won)
            racing.start_soon(try_replace, other_store, latest, others, other_won)
        (latest,) = one_won + other_won
        assert await store.read(run.run_id) == latest
        assert latest.snapshot == (ones if one_won else others)


async def test_one_of_fifty_concurrent_creates_wins(store: RunStore, other_store: RunStore) -> None:
    run = snapshot()
    results: Counter[str] = Counter()

    async def create(through: RunStore) -> None:
        try:
            await through.create(run)
            results["won"] += 1
        except ConflictError:
            results["lost"] += 1

    async with anyio.create_task_group() as racing:
        for number in range(50):
            racing.start_soon(create, other_store if number % 2 else store)
    assert results == {"won": 1, "lost": 49}


async def test_no_concurrent_change_is_lost(store: RunStore, other_store: RunStore) -> None:
    run = snapshot()
    await store.create(run)

    def one_more(stored: StoredRun) -> RunSnapshot:
        return running(stored.snapshot, attempt=stored.snapshot.attempt + 1)

    async def change(through: RunStore) -> None:
        changed = await through.change(run.run_id, one_more)
        assert changed is not None

    async with anyio.create_task_group() as changing:
        for number in range(40):
            changing.start_soon(change, other_store if number % 2 else store)
    found = await store.read(run.run_id)
    assert found is not None
    assert found.snapshot.attempt == 40


async def test_a_change_to_none_writes_nothing(store: RunStore) -> None:
    run = snapshot()
    created = await store.create(run)
    assert await store.change(run.run_id, lambda _: None) == created
    assert await store.read(run.run_id) == created


async def test_a_change_decides_again_after_a_conflict(
    store: RunStore, other_store: RunStore
) -> None:
    run = snapshot()
    await store.create(run)
    seen: list[int] = []

    def decide(stored: StoredRun) -> RunSnapshot:
        seen.append(stored.snapshot.attempt)
        return running(stored.snapshot, attempt=stored.snapshot.attempt + 10)

    real_read = store.read

    async def read_and_be_overtaken(run_id: str) -> StoredRun | None:
        found = await real_read(run_id)
        if not seen:
            await other_store.change(run_id, lambda it: running(it.snapshot, attempt=1))
        return found

    store.read = read_and_be_overtaken  # type: ignore[method-assign] # writes in between
    changed = await store.change(run.run_id, decide)
    assert changed is not None
    assert seen == [0, 1]
    assert changed.snapshot.attempt == 11


async def test_an_unreadable_record_is_a_named_failure(store: RunStore, broker: Broker) -> None:
    run = snapshot()
    await ask(broker.client, NAMES.run(run.run_id), b'{"status": "?"}')
    with pytest.raises(SnapshotUnreadableError) as unreadable:
        await store.read(run.run_id)
    assert unreadable.value.run_id == run.run_id
    with pytest.raises(ConflictError):
        await store.create(run)


async def test_a_record_of_another_run_is_unreadable(store: RunStore, broker: Broker) -> None:
    """A write of it would go to the key of the other run, and conflict there for ever."""
    here, other = snapshot(), snapshot()
    answer = await ask(broker.client, NAMES.run(here.run_id), other.to_bytes())
    with pytest.raises(SnapshotUnreadableError):
        await store.read(here.run_id)
    with pytest.raises(SnapshotUnreadableError):
        await store.change(here.run_id, lambda stored: running(stored.snapshot))
    assert await store.read_many({here.run_id: int(answer["seq"])}) == {}


async def test_a_snapshot_over_the_message_limit_is_refused(store: RunStore) -> None:
    run = snapshot(params={"text": "x" * 1_100_000})
    with pytest.raises(RefusedError) as refused:
        await store.create(run)
    assert not refused.value.is_conflict


async def test_without_the_broker_each_call_raises(
    store: RunStore, broker: Broker, nats_server: NatsServer
) -> None:
    run = snapshot()
    created = await store.create(run)
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    with pytest.raises(BrokerUnavailableError):
        await store.read(run.run_id)
    with pytest.raises(BrokerUnavailableError):
        await store.replace(created, running(run))
    await nats_server.restart()
    await broker.wait_until_up()
    assert await store.read(run.run_id) == created


async def test_every_write_is_reported_with_its_revision(broker: Broker) -> None:
    told: list[int] = []
    store = RunStore(broker, Names(), told.append, retention_sec=0)
    run = snapshot()
    first = await store.create(run)
    changed = await store.change(run.run_id, lambda _: run.model_copy(update={"error": "why"}))
    assert changed is not None
    await store.withdraw(changed)
    with pytest.raises(ConflictError):
        await store.replace(first, run)
    assert told == [first.revision, changed.revision, changed.revision + 1]
