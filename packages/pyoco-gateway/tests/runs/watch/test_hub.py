"""The hub: whatever comes in whatever order, a watcher ends with the latest, never goes back."""

import json
from contextlib import ExitStack
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.runs.feed import RunFeed
from pyoco_gateway.runs.index.run_tenants import RunTenants
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
    """The truth: what stands where, and all changes of it, for a hub to hear of late or never."""

    def __init__(self) -> None:
        self.revision = 0
        self.values: dict[str, tuple[int, bytes | None]] = {}
        self.untold: list[Entry] = []
        self.reads = 0
        self.is_up = True
        # What a read finds is decided when it is asked, and given when this is set.
        self.answers: anyio.Event | None = None

    def write(self, run_id: str, **fields: Any) -> int:
        return self._put(run_id, json.dumps(snapshot_json(run_id=run_id, **fields)).encode())

    def delete(self, run_id: str) -> int:
        return self._put(run_id, None)

    def _put(self, run_id: str, value: bytes | None) -> int:
        self.revision += 1
        self.values[run_id] = self.revision, value
        self.untold.append(Entry(run_id, self.revision, value, written_at=0.0, pending=0))
        return self.revision

    async def read(self, run_id: str) -> StoredRun | None:
        self.reads += 1
        if not self.is_up:
            raise BrokerUnavailableError("away")
        revision, value = self.values.get(run_id, (0, None))
        if self.answers is not None:
            await self.answers.wait()
        return None if value is None else StoredRun(RunSnapshot.from_bytes(value), revision)


class Heard:
    """A hub, the bucket it hears of, and a clock that stands until it is set."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.now = 1000.0
        owners = RunTenants(are_wanted=True)
        self.hub = RunHub(cast(RunStore, self.bucket), owners, clock=lambda: self.now)
        self.feed = RunFeed([self.hub])
        self.feed.on_reset()
        self.feed.on_resumed()
        self.feed.on_caught_up()

    def tell(self, count: int = 1_000_000) -> None:
        told, self.bucket.untold = self.bucket.untold[:count], self.bucket.untold[count:]
        for entry in told:
            self.feed.on_entry(entry)

    def write(self, run_id: str, **fields: Any) -> int:
        revision = self.bucket.write(run_id, **fields)
        self.tell()
        return revision


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def run_id() -> str:
    return new_run_id()


def revision_in(event: bytes) -> int:
    return int(event.split(b"\nid: ")[1].split(b"\n")[0])


def states(watched: WatchedRun) -> list[int]:
    return [] if watched.state is None else [watched.state.revision]


def taken(watched: RunListSubscription) -> list[tuple[str, int]]:
    found = []
    while (news := watched.take()) is not None:
        found.append((news.run_id, news.revision))
    return found


ACTS = st.lists(st.sampled_from(["write", "beat", "tell", "tell all", "read", "take", "break"]))


@given(ACTS)
def test_a_watcher_ends_with_the_latest_and_never_goes_back(acts: list[str]) -> None:
    """Changes, word of them, reads and takes come in any order, with breaks in between."""
    heard, run_id, wakeup = Heard(), new_run_id(), Wakeup()
    heard.write(run_id)
    seen: list[int] = []
    changed = heard.bucket.revision

    async def story() -> None:
        nonlocal changed
        with heard.hub.watching(run_id, wakeup) as watched:
            await heard.hub.read(watched)
            events = RunEvents(watched, wakeup, with_records=False, sent=None)

            def take() -> None:
                if (event := events.take()) is not None:
                    seen.append(revision_in(event))

            for step, act in enumerate([*acts, "tell all", "take"], start=1):
                match act:
                    case "write":
                        changed = heard.bucket.write(run_id, updated_at=NOW + step)
                    case "beat":
                        before = json.loads(heard.bucket.values[run_id][1] or b"")
                        heard.bucket.write(**{**before, "heartbeat_at": NOW + step})
                    case "tell":
                        heard.tell(1)
                    case "tell all":
                        heard.tell()
                    case "read":
                        await heard.hub.read(watched)
                    case "break":
                        heard.feed.on_resumed()
                    case _:
                        take()

    anyio.run(story)
    assert seen == sorted(set(seen))
    assert seen[-1] >= changed


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
def test_who_watches_all_ends_with_what_is_wanted_and_was_told_what_no_longer_is(
    changes: list[tuple[str, RunStatus | None, bool]], statuses: set[RunStatus]
) -> None:
    heard = Heard()
    wanted = WatchFilter(frozenset(statuses))
    shown: dict[str, int] = {}
    last = 0
    truth: dict[str, tuple[int, RunStatus | None]] = {}
    became: dict[int, RunStatus | None] = {}
    with heard.hub.watching_all(wanted, Wakeup(), after=0) as watched:
        for step, (run_id, status, take) in enumerate(changes):
            _, before = truth.get(run_id, (0, None))
            if before is not None and before.is_terminal and status is not None:
                # No run comes back from its end.
                continue
            if status is None:
                revision = heard.bucket.delete(run_id)
                heard.tell()
            else:
                revision = heard.write(run_id, status=status.value, updated_at=NOW + step)
            truth[run_id] = revision, status
            became[revision] = status
            for told, at in taken(watched) if take else ():
                assert at > last, "told out of order: a client that comes back would miss some"
                shown[told] = last = at
        for told, at in taken(watched):
            assert at > last
            shown[told] = last = at
    for run_id, (revision, status) in truth.items():
        if status is None or wanted.matches_status(status):
            assert shown[run_id] == revision
        elif run_id in shown:
            # Whatever a client shows of it, it does not show it as one of those it wants.
            last_shown = became[shown[run_id]]
            assert last_shown is None or not wanted.matches_status(last_shown)


def test_only_watchers_of_a_run_are_woken_by_it_and_leave_nothing_behind(
    heard: Heard, run_id: str
) -> None:
    other = new_run_id()
    with ExitStack() as held:
        one = held.enter_context(heard.hub.watching(run_id, Wakeup()))
        two = held.enter_context(heard.hub.watching(run_id, Wakeup()))
        held.enter_context(heard.hub.watching_all(WatchFilter(), Wakeup(), after=None))
        assert one is two
        assert heard.hub.watchers == 3
        heard.write(other)
        assert states(one) == []
        heard.write(run_id)
        assert states(one) == [heard.bucket.revision]
    assert heard.hub.watchers == 0
    assert not heard.hub._runs


async def test_what_was_read_late_does_not_replace_what_is_newer(heard: Heard, run_id: str) -> None:
    heard.write(run_id)
    with heard.hub.watching(run_id, Wakeup()) as watched:
        heard.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.hub.read, watched)
            await eventually(lambda: heard.bucket.reads, 1)
            newer = heard.write(run_id, status="RUNNING", updated_at=NOW + 1)
            heard.bucket.answers.set()
        assert watched.state is not None
        assert watched.state.revision == newer


async def test_a_run_that_comes_to_be_while_it_is_looked_for_is_there(
    heard: Heard, run_id: str
) -> None:
    with heard.hub.watching(run_id, Wakeup()) as watched:
        heard.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.hub.read, watched)
            await eventually(lambda: heard.bucket.reads, 1)
            heard.write(run_id)
            heard.bucket.answers.set()
        assert watched.state is not None
        assert not watched.state.is_gone


async def test_what_was_read_of_another_bucket_is_read_again(heard: Heard, run_id: str) -> None:
    """Its revisions are higher than all that comes: taken for news, it would hide the rest."""
    for _ in range(50):
        heard.write(run_id)
    with heard.hub.watching(run_id, Wakeup()) as watched:
        heard.bucket.answers = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heard.hub.read, watched)
            await eventually(lambda: heard.bucket.reads, 1)
            answers, heard.bucket.answers = heard.bucket.answers, None
            heard.bucket.revision = 0
            heard.bucket.values.clear()
            heard.feed.on_reset()
            first = heard.write(run_id, status="RUNNING", updated_at=NOW + 1)
            answers.set()
        assert heard.bucket.reads == 2
        assert watched.state is not None
        assert watched.state.revision == first
        heard.write(run_id, status="COMPLETED", updated_at=NOW + 2)
        assert watched.state.is_terminal


async def test_after_a_break_each_watched_run_is_read_once_and_until_it_is_known(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was purged meanwhile is told by nobody."""
    monkeypatch.setattr(run_hub, "_RETRY_SEC", 0.005)
    run_ids = [new_run_id() for _ in range(40)]
    for run_id in run_ids:
        heard.write(run_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard.hub.run)
        with ExitStack() as held:
            watched = [
                held.enter_context(heard.hub.watching(run_id, Wakeup()))
                for run_id in run_ids
                for _ in range(3)
            ]
            heard.bucket.is_up = False
            heard.feed.on_resumed()
            await eventually(lambda: heard.bucket.reads, lambda reads: reads > 20)
            heard.bucket.values.clear()
            heard.bucket.reads = 0
            heard.bucket.is_up = True
            await eventually(
                lambda: all(run.state is not None and run.state.is_gone for run in watched), True
            )
            assert heard.bucket.reads == len(run_ids)
        tasks.cancel_scope.cancel()


def test_a_reader_that_stalls_for_long_is_told_to_read_its_list_anew(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_hub, "MAX_UPDATES", 3)
    with heard.hub.watching_all(WatchFilter(), Wakeup(), after=0) as watched:
        *_, last = [heard.write(new_run_id()) for _ in range(4)]
        assert (watched.was_reset, watched.revision, taken(watched)) == (True, last, [])
        newer = heard.write(new_run_id())
        assert [revision for _, revision in taken(watched)] == [newer]


async def test_another_bucket_tells_who_watches_all_to_read_its_list_anew(heard: Heard) -> None:
    heard.write(new_run_id())
    with heard.hub.watching_all(WatchFilter(), Wakeup(), after=None) as watched:
        heard.feed.on_reset()
        assert (watched.was_reset, watched.revision, taken(watched)) == (True, 0, [])
        assert not await heard.hub.wait_until_caught_up(timeout_sec=0.01)


async def test_who_comes_while_the_runs_are_still_read_waits_for_that(heard: Heard) -> None:
    heard.feed.on_reset()
    async with anyio.create_task_group() as tasks:
        found: list[bool] = []

        async def wait() -> None:
            found.append(await heard.hub.wait_until_caught_up(timeout_sec=10))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        # Once more, as after an interruption: who waits goes on waiting.
        heard.feed.on_reset()
        heard.feed.on_caught_up()
    assert found == [True]


def test_what_is_told_to_many_is_made_once(heard: Heard, run_id: str) -> None:
    with heard.hub.watching(run_id, Wakeup()) as watched:
        heard.write(run_id)
        told = [
            RunEvents(watched, Wakeup(), with_records=with_records, sent=None).take()
            for with_records in (False, False, True, True)
        ]
    assert told[0] is told[1]
    assert told[2] is told[3]
    assert told[0] is not told[2]


def test_runs_that_are_over_cost_nothing(heard: Heard, run_id: str) -> None:
    heard.write(run_id, status="RUNNING")
    assert len(heard.hub._active) == 1
    heard.write(run_id, status="COMPLETED")
    assert not heard.hub._active


def test_a_tenant_hears_of_its_own_runs_also_when_nothing_is_left_of_them(heard: Heard) -> None:
    mine, theirs, old = new_run_id(), new_run_id(), new_run_id()
    filters = {name: WatchFilter(tenant_id=name) for name in ("acme", "globex", "default")}
    with ExitStack() as held:
        watched = {
            name: held.enter_context(heard.hub.watching_all(wanted, Wakeup(), after=None))
            for name, wanted in filters.items()
        }
        heard.write(mine, tenant_id="acme", status="COMPLETED")
        heard.write(theirs, tenant_id="globex", status="COMPLETED")
        heard.write(old, status="COMPLETED")
        assert {name: [run for run, _ in taken(each)] for name, each in watched.items()} == {
            "acme": [mine],
            "globex": [theirs],
            "default": [old],
        }
        for run_id in (mine, theirs, old, new_run_id()):
            heard.bucket.delete(run_id)
        heard.tell()
        # Of the last one nobody knows whose it was, and so nobody hears.
        assert {name: [run for run, _ in taken(each)] for name, each in watched.items()} == {
            "acme": [mine],
            "globex": [theirs],
            "default": [old],
        }
    # Who comes back hears the same.
    for name, run_id in (("acme", mine), ("globex", theirs), ("default", old)):
        with heard.hub.watching_all(filters[name], Wakeup(), after=0) as again:
            assert [run for run, _ in taken(again)] == [run_id]


def test_whose_runs_are_is_forgotten_with_the_bucket(heard: Heard, run_id: str) -> None:
    heard.write(run_id, tenant_id="acme")
    heard.feed.on_reset()
    with heard.hub.watching_all(WatchFilter(tenant_id="acme"), Wakeup(), after=None) as watched:
        heard.bucket.delete(run_id)
        heard.tell()
        assert taken(watched) == []


def test_whose_runs_are_is_not_kept_where_nobody_asks(run_id: str) -> None:
    owners = RunTenants(are_wanted=False)
    hub = RunHub(cast(RunStore, Bucket()), owners)
    record = json.dumps(snapshot_json(run_id=run_id, tenant_id="acme")).encode()
    RunFeed([hub]).on_entry(Entry(run_id, 1, record, written_at=0.0, pending=0))
    assert owners.of(run_id) is None
