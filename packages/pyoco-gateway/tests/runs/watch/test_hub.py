"""The hub: in any order of events, a watcher ends with the latest state and never goes back."""

import json
from contextlib import ExitStack
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.run_tenants import RunTenants
from pyoco_gateway.runs.watch import hub as run_hub
from pyoco_gateway.runs.watch.events import RunEvents
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.hub import RunHub, RunListSubscription, WatchedRun
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.ids import new_run_id
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import BrokerUnavailableError
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit.builders import NOW, snapshot_json
from pyoco_testkit.eventually import eventually


class Bucket:
    """A bucket whose changes are delivered to the hub later or not at all."""

    def __init__(self) -> None:
        self.revision = 0
        self.values: dict[str, tuple[int, bytes | None]] = {}
        self.undelivered: list[Entry] = []
        self.reads = 0
        self.is_up = True
        # A read takes its result at once and returns it when this event is set.
        self.answers: anyio.Event | None = None

    def write(self, run_id: str, **fields: Any) -> int:
        return self._put(run_id, json.dumps(snapshot_json(run_id=run_id, **fields)).encode())

    def delete(self, run_id: str) -> int:
        return self._put(run_id, None)

    def _put(self, run_id: str, value: bytes | None) -> int:
        self.revision += 1
        self.values[run_id] = self.revision, value
        self.undelivered.append(Entry(run_id, self.revision, value, written_at=0.0, pending=0))
        return self.revision

    async def read(self, run_id: str) -> StoredRun | None:
        self.reads += 1
        if not self.is_up:
            raise BrokerUnavailableError("unreachable")
        revision, value = self.values.get(run_id, (0, None))
        if self.answers is not None:
            await self.answers.wait()
        return None if value is None else StoredRun(RunSnapshot.from_bytes(value), revision)


class Source:
    """A hub, the bucket that it follows, and a clock that only a test advances."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.now = 1000.0
        tenants = RunTenants(are_wanted=True)
        self.hub = RunHub(cast(RunStore, self.bucket), tenants, clock=lambda: self.now)
        self.feed = RunFeed([self.hub])
        self.feed.on_reset()
        self.feed.on_resumed()
        self.feed.on_caught_up()

    def deliver(self, count: int = 1_000_000) -> None:
        delivered, self.bucket.undelivered = (
            self.bucket.undelivered[:count],
            self.bucket.undelivered[count:],
        )
        for entry in delivered:
            self.feed.on_entry(entry)

    def write(self, run_id: str, **fields: Any) -> int:
        revision = self.bucket.write(run_id, **fields)
        self.deliver()
        return revision


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def run_id() -> str:
    return new_run_id()


def revision_in(event: bytes) -> int:
    return int(event.split(b"\nid: ")[1].split(b"\n")[0])


def states(watched: WatchedRun) -> list[int]:
    return [] if watched.state is None else [watched.state.revision]


def taken(watched: RunListSubscription) -> list[tuple[str, int]]:
    found = []
    while (update := watched.take()) is not None:
        found.append((update.run_id, update.revision))
    return found


ACTIONS = st.lists(
    st.sampled_from(["write", "heartbeat", "deliver", "deliver all", "read", "take", "gap"])
)


@given(ACTIONS)
def test_a_watcher_ends_with_the_latest_state_and_never_goes_back(actions: list[str]) -> None:
    """Writes, deliveries, reads and takes happen in any order, with gaps in the watch."""
    source, run_id, wakeup = Source(), new_run_id(), Wakeup()
    source.write(run_id)
    sent: list[int] = []
    changed = source.bucket.revision

    async def scenario() -> None:
        nonlocal changed
        with source.hub.watching(run_id, wakeup) as watched:
            await source.hub.read(watched)
            events = RunEvents(watched, wakeup, with_records=False, sent=None)

            def take() -> None:
                if (event := events.take()) is not None:
                    sent.append(revision_in(event))

            for step, action in enumerate([*actions, "deliver all", "take"], start=1):
                match action:
                    case "write":
                        changed = source.bucket.write(run_id, updated_at=NOW + step)
                    case "heartbeat":
                        before = json.loads(source.bucket.values[run_id][1] or b"")
                        source.bucket.write(**{**before, "heartbeat_at": NOW + step})
                    case "deliver":
                        source.deliver(1)
                    case "deliver all":
                        source.deliver()
                    case "read":
                        await source.hub.read(watched)
                    case "gap":
                        source.feed.on_resumed()
                    case _:
                        take()

    anyio.run(scenario)
    assert sent == sorted(set(sent))
    assert sent[-1] >= changed


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([*RunStatus, None]),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.sets(st.sampled_from(RunStatus)),
)
def test_a_list_watcher_gets_matching_runs_and_is_told_when_they_cease_to_match(
    changes: list[tuple[str, RunStatus | None, bool]], statuses: set[RunStatus]
) -> None:
    source = Source()
    run_filter = WatchFilter(frozenset(statuses))
    shown: dict[str, int] = {}
    last = 0
    expected: dict[str, tuple[int, RunStatus | None]] = {}
    status_at: dict[int, RunStatus | None] = {}
    with source.hub.watching_all(run_filter, Wakeup(), after=0) as watched:
        for step, (run_id, status, take) in enumerate(changes):
            _, before = expected.get(run_id, (0, None))
            if before is not None and before.is_terminal and status is not None:
                # A run that has ended does not change.
                continue
            if status is None:
                revision = source.bucket.delete(run_id)
                source.deliver()
            else:
                revision = source.write(run_id, status=status.value, updated_at=NOW + step)
            expected[run_id] = revision, status
            status_at[revision] = status
            for changed_id, at in taken(watched) if take else ():
                assert at > last, "sent out of order: a client that reconnects would miss changes"
                shown[changed_id] = last = at
        for changed_id, at in taken(watched):
            assert at > last
            shown[changed_id] = last = at
    for run_id, (revision, status) in expected.items():
        if status is None or run_filter.matches_status(status):
            assert shown[run_id] == revision
        elif run_id in shown:
            # The client does not show the run with a status that matches.
            last_shown = status_at[shown[run_id]]
            assert last_shown is None or not run_filter.matches_status(last_shown)


def test_only_the_watchers_of_a_run_are_woken_and_leave_no_state_behind(
    source: Source, run_id: str
) -> None:
    other = new_run_id()
    with ExitStack() as subscriptions:
        one = subscriptions.enter_context(source.hub.watching(run_id, Wakeup()))
        two = subscriptions.enter_context(source.hub.watching(run_id, Wakeup()))
        subscriptions.enter_context(source.hub.watching_all(WatchFilter(), Wakeup(), after=None))
        assert one is two
        assert source.hub.watchers == 3
        source.write(other)
        assert states(one) == []
        source.write(run_id)
        assert states(one) == [source.bucket.revision]
    assert source.hub.watchers == 0
    assert not source.hub._runs


async def test_a_late_read_does_not_replace_a_newer_state(source: Source, run_id: str) -> None:
    source.write(run_id)
    with source.hub.watching(run_id, Wakeup()) as watched:
        source.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(source.hub.read, watched)
            await eventually(lambda: source.bucket.reads, 1)
            newer = source.write(run_id, status="RUNNING", updated_at=NOW + 1)
            source.bucket.answers.set()
        assert watched.state is not None
        assert watched.state.revision == newer


async def test_a_run_created_during_a_read_is_not_gone(source: Source, run_id: str) -> None:
    with source.hub.watching(run_id, Wakeup()) as watched:
        source.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(source.hub.read, watched)
            await eventually(lambda: source.bucket.reads, 1)
            source.write(run_id)
            source.bucket.answers.set()
        assert watched.state is not None
        assert not watched.state.is_gone


async def test_a_read_from_a_replaced_bucket_is_repeated(source: Source, run_id: str) -> None:
    """Its higher revision would otherwise hide all changes of the new bucket."""
    for _ in range(50):
        source.write(run_id)
    with source.hub.watching(run_id, Wakeup()) as watched:
        source.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(source.hub.read, watched)
            await eventually(lambda: source.bucket.reads, 1)
            answers, source.bucket.answers = source.bucket.answers, None
            source.bucket.revision = 0
            source.bucket.values.clear()
            source.feed.on_reset()
            first = source.write(run_id, status="RUNNING", updated_at=NOW + 1)
            answers.set()
        assert source.bucket.reads == 2
        assert watched.state is not None
        assert watched.state.revision == first
        source.write(run_id, status="COMPLETED", updated_at=NOW + 2)
        assert watched.state.is_terminal


async def test_after_a_gap_each_watched_run_is_read_again_until_it_succeeds(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch does not deliver runs that were purged during the gap."""
    monkeypatch.setattr(run_hub, "_RETRY_SEC", 0.005)
    run_ids = [new_run_id() for _ in range(40)]
    for run_id in run_ids:
        source.write(run_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.hub.run)
        with ExitStack() as subscriptions:
            watched = [
                subscriptions.enter_context(source.hub.watching(run_id, Wakeup()))
                for run_id in run_ids
                for _ in range(3)
            ]
            source.bucket.is_up = False
            source.feed.on_resumed()
            await eventually(lambda: source.bucket.reads, lambda reads: reads > 20)
            source.bucket.values.clear()
            source.bucket.reads = 0
            source.bucket.is_up = True
            await eventually(
                lambda: all(run.state is not None and run.state.is_gone for run in watched), True
            )
            assert source.bucket.reads == len(run_ids)
        tasks.cancel_scope.cancel()


def test_a_client_that_reads_too_slowly_is_reset(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hub, "MAX_UPDATES", 3)
    with source.hub.watching_all(WatchFilter(), Wakeup(), after=0) as watched:
        *_, last = [source.write(new_run_id()) for _ in range(4)]
        assert (watched.was_reset, watched.revision, taken(watched)) == (True, last, [])
        newer = source.write(new_run_id())
        assert [revision for _, revision in taken(watched)] == [newer]


async def test_a_replaced_bucket_resets_list_watchers(source: Source) -> None:
    source.write(new_run_id())
    with source.hub.watching_all(WatchFilter(), Wakeup(), after=None) as watched:
        source.feed.on_reset()
        assert (watched.was_reset, watched.revision, taken(watched)) == (True, 0, [])
        assert not await source.hub.wait_until_caught_up(timeout_sec=0.01)


async def test_a_client_waits_while_the_runs_are_still_being_read(
    source: Source,
) -> None:
    source.feed.on_reset()
    async with anyio.create_task_group() as tasks:
        found: list[bool] = []

        async def wait() -> None:
            found.append(await source.hub.wait_until_caught_up(timeout_sec=10))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        # A second reset, as after an interruption, does not end the wait.
        source.feed.on_reset()
        source.feed.on_caught_up()
    assert found == [True]


def test_an_event_for_many_watchers_is_encoded_once(source: Source, run_id: str) -> None:
    with source.hub.watching(run_id, Wakeup()) as watched:
        source.write(run_id)
        events = [
            RunEvents(watched, Wakeup(), with_records=with_records, sent=None).take()
            for with_records in (False, False, True, True)
        ]
    assert events[0] is events[1]
    assert events[2] is events[3]
    assert events[0] is not events[2]


def test_ended_runs_take_no_memory(source: Source, run_id: str) -> None:
    source.write(run_id, status="RUNNING")
    assert len(source.hub._active) == 1
    source.write(run_id, status="COMPLETED")
    assert not source.hub._active


def test_a_tenant_gets_only_its_own_runs_also_when_they_are_deleted(
    source: Source,
) -> None:
    mine, theirs, old = new_run_id(), new_run_id(), new_run_id()
    filters = {name: WatchFilter(tenant_id=name) for name in ("acme", "globex", "default")}
    with ExitStack() as subscriptions:
        watched = {
            name: subscriptions.enter_context(
                source.hub.watching_all(run_filter, Wakeup(), after=None)
            )
            for name, run_filter in filters.items()
        }
        source.write(mine, tenant_id="acme", status="COMPLETED")
        source.write(theirs, tenant_id="globex", status="COMPLETED")
        source.write(old, status="COMPLETED")
        assert {name: [run for run, _ in taken(each)] for name, each in watched.items()} == {
            "acme": [mine],
            "globex": [theirs],
            "default": [old],
        }
        for run_id in (mine, theirs, old, new_run_id()):
            source.bucket.delete(run_id)
        source.deliver()
        # The tenant of the last one is unknown, so no tenant gets it.
        assert {name: [run for run, _ in taken(each)] for name, each in watched.items()} == {
            "acme": [mine],
            "globex": [theirs],
            "default": [old],
        }
    # A client that reconnects gets the same.
    for name, run_id in (("acme", mine), ("globex", theirs), ("default", old)):
        with source.hub.watching_all(filters[name], Wakeup(), after=0) as again:
            assert [run for run, _ in taken(again)] == [run_id]


def test_tenants_of_runs_are_forgotten_with_the_bucket(source: Source, run_id: str) -> None:
    source.write(run_id, tenant_id="acme")
    source.feed.on_reset()
    with source.hub.watching_all(WatchFilter(tenant_id="acme"), Wakeup(), after=None) as watched:
        source.bucket.delete(run_id)
        source.deliver()
        assert taken(watched) == []


def test_tenants_of_runs_are_not_kept_unless_wanted(run_id: str) -> None:
    tenants = RunTenants(are_wanted=False)
    hub = RunHub(cast(RunStore, Bucket()), tenants)
    record = json.dumps(snapshot_json(run_id=run_id, tenant_id="acme")).encode()
    RunFeed([hub]).on_entry(Entry(run_id, 1, record, written_at=0.0, pending=0))
    assert tenants.of(run_id) is None
