"""Run snapshots in a real bucket: one writer wins each revision, nobody overwrites blindly."""

from collections import Counter
from collections.abc import AsyncGenerator

import anyio
import pytest

from pyoco_protocol import subjects
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
    return RunStore(broker, NAMES)


@pytest.fixture
async def other_store(broker: Broker, nats_server: NatsServer) -> AsyncGenerator[RunStore]:
    """The same runs, seen by another process as it were: over a connection of its own."""
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="other") as other:
        await other.wait_until_up()
        yield RunStore(other, NAMES)


def running(of: RunSnapshot, **fields: object) -> RunSnapshot:
    return of.model_copy(update={"status": RunStatus.RUNNING, **fields})


async def test_a_created_run_is_there_at_once(store: RunStore, other_store: RunStore) -> None:
    run = snapshot(params={"name": "世界"})
    revision = await store.create(run)
    assert await store.read(run.run_id) == StoredRun(run, revision)
    assert await other_store.read(run.run_id) == StoredRun(run, revision)


async def test_what_was_never_created_is_not_there(store: RunStore) -> None:
    assert await store.read(snapshot().run_id) is None
    assert await store.change(snapshot().run_id, lambda stored: stored.snapshot) is None


async def test_a_run_is_created_once(store: RunStore) -> None:
    run = snapshot()
    revision = await store.create(run)
    with pytest.raises(ConflictError):
        await store.create(running(run))
    assert await store.read(run.run_id) == StoredRun(run, revision)


async def test_a_run_is_replaced_where_it_stands(store: RunStore) -> None:
    run = snapshot()
    first = await store.create(run)
    second = await store.replace(running(run), first)
    assert second > first
    assert await store.read(run.run_id) == StoredRun(running(run), second)


async def test_whoever_has_not_seen_the_latest_overwrites_nothing(store: RunStore) -> None:
    run = snapshot()
    first = await store.create(run)
    second = await store.replace(running(run, attempt=1), first)
    with pytest.raises(ConflictError):
        await store.replace(running(run, attempt=9), first)
    with pytest.raises(ConflictError):
        await store.delete(run.run_id, first)
    with pytest.raises(ConflictError):
        await store.replace(running(run, attempt=9), second + 1)
    assert await store.read(run.run_id) == StoredRun(running(run, attempt=1), second)


async def test_runs_do_not_get_in_each_others_way(store: RunStore) -> None:
    one, other = snapshot(), snapshot()
    first = await store.create(one)
    await store.create(other)
    await store.replace(running(one), first)
    found = await store.read(other.run_id)
    assert found is not None
    assert found.snapshot.status is RunStatus.PENDING


async def test_a_deleted_run_is_gone_and_can_be_created_again(store: RunStore) -> None:
    run = snapshot()
    revision = await store.create(run)
    await store.delete(run.run_id, revision)
    assert await store.read(run.run_id) is None
    with pytest.raises(ConflictError):
        await store.replace(run, revision)
    again = await store.create(run)
    assert await store.read(run.run_id) == StoredRun(run, again)


async def test_an_expired_run_is_gone_and_can_be_created_again(
    store: RunStore, broker: Broker
) -> None:
    run = snapshot()
    ended = run.model_copy(update={"status": RunStatus.COMPLETED})
    revision = await store.replace(ended, await store.create(run), ttl_sec=1)
    assert await store.read(run.run_id) == StoredRun(ended, revision)
    await eventually(lambda: store.read(run.run_id), None)
    # A marker stands in its place, for those who watch.
    read_marker = subjects.last_message(subjects.kv_stream(NAMES.runs_bucket))
    request = b'{"last_by_subj": "%s"}' % NAMES.run(run.run_id).encode()
    marker = await ask(broker.client, read_marker, request)
    assert int(marker["message"]["seq"]) > revision
    again = await store.create(run)
    assert await store.read(run.run_id) == StoredRun(run, again)


async def test_a_write_without_a_ttl_keeps_a_run_that_would_have_expired(store: RunStore) -> None:
    kept, expiring = snapshot(), snapshot()
    revision = await store.replace(running(kept), await store.create(kept), ttl_sec=1)
    await store.replace(running(kept, attempt=2), revision)
    await store.replace(running(expiring), await store.create(expiring), ttl_sec=1)
    # By then the other's time was up as well.
    await eventually(lambda: store.read(expiring.run_id), None)
    found = await store.read(kept.run_id)
    assert found is not None
    assert found.snapshot.attempt == 2


async def test_a_bucket_that_takes_no_ttl_still_takes_the_end_of_a_run(
    nats_server: NatsServer,
) -> None:
    async with open_broker(BrokerSettings(nats_url=nats_server.url), name="tests") as broker:
        await broker.wait_until_up()
        # As a server that knew nothing of them has left it.
        await ask(
            broker.client,
            f"$JS.API.STREAM.CREATE.{subjects.kv_stream(NAMES.runs_bucket)}",
            b'{"name": "KV_pyoco_runs", "subjects": ["$KV.pyoco_runs.>"], "retention": "limits",'
            b' "storage": "file", "num_replicas": 1, "max_msgs_per_subject": 1,'
            b' "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true}',
        )
        store = RunStore(broker, NAMES)
        run = snapshot()
        revision = await store.create(run)
        ended = run.model_copy(update={"status": RunStatus.COMPLETED})
        again = await store.replace(ended, revision, ttl_sec=60)
        assert await store.read(run.run_id) == StoredRun(ended, again)


async def try_replace(store: RunStore, run: RunSnapshot, revision: int, won: list[int]) -> None:
    try:
        won.append(await store.replace(run, revision))
    except ConflictError:
        return


async def test_of_two_writers_one_wins_each_revision(
    store: RunStore, other_store: RunStore
) -> None:
    run = snapshot()
    revision = await store.create(run)
    for attempt in range(1, 51):
        ones = running(run, worker_id="one", attempt=attempt)
        others = running(run, worker_id="other", attempt=attempt)
        one_won: list[int] = []
        other_won: list[int] = []
        async with anyio.create_task_group() as racing:
            racing.start_soon(try_replace, store, ones, revision, one_won)
            racing.start_soon(try_replace, other_store, others, revision, other_won)
        (revision,) = one_won + other_won
        assert await store.read(run.run_id) == StoredRun(ones if one_won else others, revision)


async def test_of_fifty_who_create_one_run_one_wins(store: RunStore, other_store: RunStore) -> None:
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


async def test_no_change_is_lost_among_many_who_change(
    store: RunStore, other_store: RunStore
) -> None:
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


async def test_a_change_that_is_not_wanted_writes_nothing(store: RunStore) -> None:
    run = snapshot()
    revision = await store.create(run)
    assert await store.change(run.run_id, lambda _: None) == StoredRun(run, revision)
    found = await store.read(run.run_id)
    assert found is not None
    assert found.revision == revision


async def test_a_change_decides_anew_when_another_comes_first(
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

    store.read = read_and_be_overtaken  # type: ignore[method-assign] # to come in between
    changed = await store.change(run.run_id, decide)
    assert changed is not None
    assert seen == [0, 1]
    assert changed.snapshot.attempt == 11


async def test_a_value_that_is_no_snapshot_is_a_named_failure(
    store: RunStore, broker: Broker
) -> None:
    run = snapshot()
    await ask(broker.client, NAMES.run(run.run_id), b'{"status": "?"}')
    with pytest.raises(SnapshotUnreadableError) as unreadable:
        await store.read(run.run_id)
    assert unreadable.value.run_id == run.run_id
    with pytest.raises(ConflictError):
        await store.create(run)


async def test_a_snapshot_over_the_message_limit_is_refused(store: RunStore) -> None:
    run = snapshot(params={"text": "x" * 1_100_000})
    with pytest.raises(RefusedError) as refused:
        await store.create(run)
    assert not refused.value.is_conflict


async def test_while_the_broker_is_away_each_use_says_so(
    store: RunStore, broker: Broker, nats_server: NatsServer
) -> None:
    run = snapshot()
    revision = await store.create(run)
    nats_server.kill()
    await eventually(lambda: broker.is_up, False)
    with pytest.raises(BrokerUnavailableError):
        await store.read(run.run_id)
    with pytest.raises(BrokerUnavailableError):
        await store.replace(running(run), revision)
    await nats_server.restart()
    await broker.wait_until_up()
    assert await store.read(run.run_id) == StoredRun(run, revision)


async def test_every_write_is_told_with_its_revision(broker: Broker) -> None:
    told: list[int] = []
    store = RunStore(broker, Names(), told.append)
    run = snapshot()
    first = await store.create(run)
    changed = await store.change(run.run_id, lambda _: run.model_copy(update={"error": "why"}))
    assert changed is not None
    await store.delete(run.run_id, changed.revision)
    with pytest.raises(ConflictError):
        await store.replace(run, first)
    assert told == [first, changed.revision, changed.revision + 1]
