"""Passes changes of the runs bucket to the clients that watch runs."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.run_tenants import RunTenants
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.states import RunState, RunUpdate, StateKey, state_key
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import BrokerUnavailableError, SnapshotUnreadableError
from pyoco_protocol.runs.lifecycle import RunStatus

_log = logging.getLogger(__name__)

# Maximum number of changed runs that are kept for clients that reconnect, and for each client
# that reads slowly.
MAX_UPDATES: Final = 4096
# A list that is read right after a stream has started may be this far behind it.
OVERLAP_SEC: Final = 1.0
_MAX_CONCURRENT_READS: Final = 16
_RETRY_SEC: Final = 0.5


class WatchedRun:
    """The latest state of one watched run, and the wakeups of its watchers."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        # None until the run has been read.
        self.state: RunState | None = None
        self.watchers: set[Wakeup] = set()
        # The bucket that `state` is from; revisions of different buckets are not comparable.
        self._bucket = 0
        # The number of gaps in the watch when the record was last read.
        self.gaps_when_read = 0

    def offer(self, state: RunState, bucket: int) -> None:
        """Take a state if it is newer; wake the watchers unless it is only a heartbeat."""
        before = self.state
        if before is not None and bucket == self._bucket and state.revision <= before.revision:
            return
        self.state = state
        self._bucket = bucket
        if before is None or state.key != before.key:
            self.wake()

    def mark_gone(self) -> None:
        """Note that the record no longer exists."""
        revision = self.state.revision if self.state is not None else 0
        self.state = RunState(self.run_id, revision)
        self.wake()

    def wake(self) -> None:
        """Wake all watchers."""
        for each in self.watchers:
            each.set()


class RunListSubscription:
    """The latest update of each run that one client watches and has not received yet.

    `was_reset` is set when updates were dropped: the client has to read its list again.
    """

    def __init__(self, run_filter: WatchFilter, revision: int, wakeup: Wakeup) -> None:
        self._filter = run_filter
        self._wakeup = wakeup
        self._unsent: dict[str, RunUpdate] = {}
        # All updates that follow are newer than this.
        self.revision = revision
        self.was_reset = False

    def offer(self, update: RunUpdate, before: StateKey | None) -> None:
        """Queue an update if it matches; `before` is the run's previous state, if known."""
        if update.run_id not in self._unsent and not self._matches(update, before):
            return
        # Removing and adding again keeps the updates in the order of revisions.
        self._unsent.pop(update.run_id, None)
        self._unsent[update.run_id] = update
        if len(self._unsent) > MAX_UPDATES:
            self.reset(update.revision)
        self._wakeup.set()

    def take(self) -> RunUpdate | None:
        """Remove and return the oldest unsent update; None if there is none."""
        if not self._unsent:
            return None
        return self._unsent.pop(next(iter(self._unsent)))

    def reset(self, revision: int) -> None:
        """Drop all unsent updates."""
        self._unsent.clear()
        self.revision = revision
        self.was_reset = True
        self._wakeup.set()

    def _matches(self, update: RunUpdate, before: StateKey | None) -> bool:
        run = update.outline
        if not self._filter.matches_tenant(update.tenant_id):
            return False
        if run is None:
            # A deleted run has no fields left to match; clients ignore unknown ids.
            return True
        if not self._filter.matches_fields(run):
            return False
        if self._filter.matches_status(run.status):
            return True
        if before is not None:
            return self._filter.matches_status(before[0])
        # The run may have matched before, unless it is PENDING, its first status.
        return run.status is not RunStatus.PENDING


class RunHub:
    """Keeps the latest state of watched runs, without a backlog of changes.

    The cost of a change grows with the watchers of its run and of run lists only.
    """

    def __init__(
        self,
        store: RunStore,
        tenants: RunTenants | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._tenants = tenants or RunTenants(are_wanted=False)
        self._clock = clock
        self._runs: dict[str, WatchedRun] = {}
        self._subscriptions: set[RunListSubscription] = set()
        # The last state of each run that has not ended.
        self._active: dict[str, StateKey] = {}
        # The last changed runs in the order of their revisions, and the revision of the last
        # update that was dropped from them.
        self._recent: OrderedDict[str, RunUpdate] = OrderedDict()
        self._dropped_revision = 0
        self.revision = 0
        self._caught_up = anyio.Event()
        self._bucket = 0
        # Number of times the watch may have missed changes.
        self._gaps = 0
        self._gap_wakeup = Wakeup()

    def on_change(self, change: RunChange) -> None:
        """Pass a change on to the watchers of its run and of matching lists."""
        self.revision = change.revision
        run = change.outline
        if run is None and change.data is not None:
            # The record is unreadable; the feed counts it.
            return
        tenant_id = self._tenants.note(change)
        watched = self._runs.get(change.run_id)
        if watched is not None:
            watched.offer(RunState.of_change(change), self._bucket)
        before = self._active.pop(change.run_id, None)
        if run is not None:
            key = state_key(run)
            if not run.status.is_terminal:
                self._active[change.run_id] = key
            if key == before:
                return
        update = RunUpdate(change.run_id, change.revision, tenant_id, run, self._clock())
        self._remember(update)
        for each in self._subscriptions:
            each.offer(update, before)

    def on_reset(self) -> None:
        """Forget all runs: the bucket was replaced and its revisions start again."""
        self._bucket += 1
        self.revision = self._dropped_revision = 0
        if self._caught_up.is_set():
            self._caught_up = anyio.Event()
        self._tenants.forget()
        self._active.clear()
        self._recent.clear()
        for each in self._subscriptions:
            each.reset(0)
        self._read_all_again()

    def on_resumed(self) -> None:
        """Read every watched run again: the watch does not deliver runs that vanished."""
        self._read_all_again()

    def on_caught_up(self) -> None:
        """Note that all stored runs are known."""
        self._caught_up.set()

    @contextmanager
    def watching(self, run_id: str, wakeup: Wakeup) -> Iterator[WatchedRun]:
        """Yield a watched run; its changes set `wakeup`. Its state is known after `read`."""
        watched = self._runs.setdefault(run_id, WatchedRun(run_id))
        watched.watchers.add(wakeup)
        try:
            yield watched
        finally:
            watched.watchers.discard(wakeup)
            if not watched.watchers:
                self._runs.pop(run_id, None)

    @contextmanager
    def watching_all(
        self, run_filter: WatchFilter, wakeup: Wakeup, *, after: int | None
    ) -> Iterator[RunListSubscription]:
        """Yield the updates, after a revision, of all runs that match or have just ceased to.

        Without a revision, the updates start shortly before now. A client that reads a list right
        afterwards then misses no change.
        """
        start = self._revision_before_overlap() if after is None else after
        subscription = RunListSubscription(run_filter, start, wakeup)
        if self._dropped_revision <= start <= self.revision:
            for update in self._updates_since(start):
                subscription.offer(update, None)
        else:
            subscription.reset(self.revision)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    async def wait_until_caught_up(self, timeout_sec: float) -> bool:
        """Wait until all stored runs are known; return whether they are."""
        with anyio.move_on_after(timeout_sec):
            await self._caught_up.wait()
        return self._caught_up.is_set()

    @property
    def watchers(self) -> int:
        """Number of watchers of single runs and of lists."""
        return len(self._subscriptions) + sum(len(each.watchers) for each in self._runs.values())

    async def read(self, watched: WatchedRun) -> None:
        """Read the latest state of a watched run from the stream leader."""
        while True:
            bucket, gaps, before = self._bucket, self._gaps, watched.state
            stored = await self._store.read(watched.run_id)
            # If the bucket was replaced during the read, the result may be from the old one.
            if bucket == self._bucket:
                break
        if stored is not None:
            watched.offer(RunState.of_stored(stored), bucket)
        elif watched.state is before:
            # Otherwise the run was created during the read.
            watched.mark_gone()
        watched.gaps_when_read = gaps

    async def run(self) -> None:
        """Read all watched runs again after each gap in the watch, until cancelled."""
        while True:
            await self._gap_wakeup.wait()
            while unread := [each for each in self._runs.values() if self._is_unread(each)]:
                async with anyio.create_task_group() as tasks:
                    for each in unread[:_MAX_CONCURRENT_READS]:
                        tasks.start_soon(self._try_to_read, each)
                if all(map(self._is_unread, unread[:_MAX_CONCURRENT_READS])):
                    await anyio.sleep(_RETRY_SEC)

    async def _try_to_read(self, watched: WatchedRun) -> None:
        try:
            await self.read(watched)
        except SnapshotUnreadableError:
            watched.gaps_when_read = self._gaps
        except (BrokerUnavailableError, RefusedError) as error:
            _log.debug("run not read yet", extra={"run_id": watched.run_id, "reason": str(error)})

    def _is_unread(self, watched: WatchedRun) -> bool:
        return watched.gaps_when_read < self._gaps and bool(watched.watchers)

    def _read_all_again(self) -> None:
        self._gaps += 1
        self._gap_wakeup.set()

    def _remember(self, update: RunUpdate) -> None:
        self._recent.pop(update.run_id, None)
        self._recent[update.run_id] = update
        if len(self._recent) > MAX_UPDATES:
            _, oldest = self._recent.popitem(last=False)
            self._dropped_revision = oldest.revision

    def _updates_since(self, revision: int) -> list[RunUpdate]:
        found = []
        for update in reversed(self._recent.values()):
            if update.revision <= revision:
                break
            found.append(update)
        return found[::-1]

    def _revision_before_overlap(self) -> int:
        """Return the newest revision that is older than `OVERLAP_SEC`."""
        start = self._clock() - OVERLAP_SEC
        for update in reversed(self._recent.values()):
            if update.received_at < start:
                return update.revision
        return self._dropped_revision
