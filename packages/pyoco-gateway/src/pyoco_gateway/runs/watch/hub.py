"""Tells those who watch what the one watch of the runs bucket tells us."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.run_tenants import RunTenants
from pyoco_gateway.runs.watch.filter import WatchFilter
from pyoco_gateway.runs.watch.states import Mark, RunNews, RunState, mark_of
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.jetstream.requests import RefusedError
from pyoco_protocol.jetstream.run_store import RunStore
from pyoco_protocol.problems import BrokerUnavailableError, SnapshotUnreadableError
from pyoco_protocol.runs.lifecycle import RunStatus

_log = logging.getLogger(__name__)

# How many runs that have changed are remembered, for those who come back.
REMEMBERED: Final = 4096
# A list that is read right after a stream has begun may be this much behind it.
OVERLAP_SEC: Final = 1.0
_READS_AT_ONCE: Final = 16
_RETRY_SEC: Final = 0.5


class WatchedRun:
    """The latest state of one run that is being watched, and who is to be woken by it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        # None until it is known.
        self.state: RunState | None = None
        self.watchers: set[Wakeup] = set()
        # The bucket that `state` is from; revisions of another one cannot be compared with it.
        self._bucket = 0
        # The last break of the watch after which the record was read.
        self.read_after = 0

    def offer(self, state: RunState, bucket: int) -> None:
        """Take a state that may be newer; wake the watchers where it shows something new."""
        before = self.state
        if before is not None and bucket == self._bucket and state.revision <= before.revision:
            return
        self.state = state
        self._bucket = bucket
        if before is None or state.mark != before.mark:
            self.wake()

    def vanish(self) -> None:
        """Take note that the record is no longer there."""
        revision = self.state.revision if self.state is not None else 0
        self.state = RunState(self.run_id, revision)
        self.wake()

    def wake(self) -> None:
        """Wake all watchers."""
        for each in self.watchers:
            each.set()


class WatchedRuns:
    """What one client has not been told yet of the runs that it wants to see; the latest of each.

    `restarted` stands for more than could be kept: the client has to read its list anew.
    """

    def __init__(self, wanted: WatchFilter, revision: int, wakeup: Wakeup) -> None:
        self._wanted = wanted
        self._wakeup = wakeup
        self._untold: dict[str, RunNews] = {}
        # All that follows is newer than this.
        self.revision = revision
        self.restarted = False

    def offer(self, news: RunNews, before: Mark | None) -> None:
        """Take what has become of a run that was at `before`; None where nobody knows."""
        if news.run_id not in self._untold and not self._concerns(news, before):
            return
        # Out and in again: what is told comes in the order of revisions.
        self._untold.pop(news.run_id, None)
        self._untold[news.run_id] = news
        if len(self._untold) > REMEMBERED:
            self.restart(news.revision)
        self._wakeup.set()

    def take(self) -> RunNews | None:
        """Return the oldest that is untold, which is told with this."""
        if not self._untold:
            return None
        return self._untold.pop(next(iter(self._untold)))

    def restart(self, revision: int) -> None:
        """Give up what is untold."""
        self._untold.clear()
        self.revision = revision
        self.restarted = True
        self._wakeup.set()

    def _concerns(self, news: RunNews, before: Mark | None) -> bool:
        run = news.outline
        if not self._wanted.wants_owner(news.owner):
            return False
        if run is None:
            # Nothing is left to judge it by; who has not seen it need not care.
            return True
        if not self._wanted.wants_kind(run):
            return False
        if self._wanted.wants_status(run.status):
            return True
        if before is not None:
            return self._wanted.wants_status(before[0])
        # It may have been in before; only what waits to be run has had no other status.
        return run.status is not RunStatus.PENDING


class RunHub:
    """Follows the runs bucket for all who watch runs; keeps the latest state and no backlog.

    A change costs as much as there are watchers of its run, and of all runs.
    """

    def __init__(
        self,
        store: RunStore,
        owners: RunTenants | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._owners = owners or RunTenants(are_wanted=False)
        self._clock = clock
        self._runs: dict[str, WatchedRun] = {}
        self._crowd: set[WatchedRuns] = set()
        # How each run that is not over was told last.
        self._marks: dict[str, Mark] = {}
        # The runs that have changed last, in the order of their revisions, and the last revision
        # that is no longer among them.
        self._recent: OrderedDict[str, RunNews] = OrderedDict()
        self._forgotten = 0
        self.revision = 0
        self._caught_up = anyio.Event()
        self._bucket = 0
        self._breaks = 0
        self._broken = Wakeup()

    def on_change(self, change: RunChange) -> None:
        """Tell whom it concerns."""
        self.revision = change.revision
        run = change.outline
        if run is None and change.data is not None:
            # Nobody can say what it means; the feed counts it.
            return
        owner = self._owners.note(change)
        watched = self._runs.get(change.run_id)
        if watched is not None:
            watched.offer(RunState.of_change(change), self._bucket)
        before = self._marks.pop(change.run_id, None)
        if run is not None:
            mark = mark_of(run)
            if not run.status.is_terminal:
                self._marks[change.run_id] = mark
            if mark == before:
                return
        news = RunNews(change.run_id, change.revision, owner, run, self._clock())
        self._remember(news)
        for each in self._crowd:
            each.offer(news, before)

    def on_reset(self) -> None:
        """Forget all: it is another bucket, and its revisions start anew."""
        self._bucket += 1
        self.revision = self._forgotten = 0
        if self._caught_up.is_set():
            self._caught_up = anyio.Event()
        self._owners.forget()
        self._marks.clear()
        self._recent.clear()
        for each in self._crowd:
            each.restart(0)
        self._have_all_read()

    def on_resumed(self) -> None:
        """Have every watched run read again: what vanished meanwhile is not told by anybody."""
        self._have_all_read()

    def on_caught_up(self) -> None:
        """From now on it is known what there is."""
        self._caught_up.set()

    @contextmanager
    def watching(self, run_id: str, wakeup: Wakeup) -> Iterator[WatchedRun]:
        """A run whose changes wake `wakeup`. Its state is known when it has been read."""
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
        self, wanted: WatchFilter, wakeup: Wakeup, *, after: int | None
    ) -> Iterator[WatchedRuns]:
        """The changes of all runs that are wanted or were until now, after the revision `after`.

        Without one they begin a moment ago, so that nothing falls between them and a list.
        """
        start = self._a_moment_ago() if after is None else after
        watched = WatchedRuns(wanted, start, wakeup)
        if self._forgotten <= start <= self.revision:
            for news in self._since(start):
                watched.offer(news, None)
        else:
            watched.restart(self.revision)
        self._crowd.add(watched)
        try:
            yield watched
        finally:
            self._crowd.discard(watched)

    async def is_caught_up(self, within_sec: float) -> bool:
        """Whether it is known what there is, now or in a moment."""
        with anyio.move_on_after(within_sec):
            await self._caught_up.wait()
        return self._caught_up.is_set()

    @property
    def watchers(self) -> int:
        """How many subscriptions there are."""
        return len(self._crowd) + sum(len(each.watchers) for each in self._runs.values())

    async def read(self, watched: WatchedRun) -> None:
        """Have the latest state of a watched run from the leader, or one that is newer still."""
        while True:
            bucket, breaks, before = self._bucket, self._breaks, watched.state
            stored = await self._store.read(watched.run_id)
            # What was read of another bucket than the one we hear of now says nothing.
            if bucket == self._bucket:
                break
        if stored is not None:
            watched.offer(RunState.of_stored(stored), bucket)
        elif watched.state is before:
            # Else it has come to be while it was looked for.
            watched.vanish()
        watched.read_after = breaks

    async def run(self) -> None:
        """Read what is watched again after each break of the watch, until cancelled."""
        while True:
            await self._broken.wait()
            while unread := [each for each in self._runs.values() if self._is_unread(each)]:
                async with anyio.create_task_group() as tasks:
                    for each in unread[:_READS_AT_ONCE]:
                        tasks.start_soon(self._try_to_read, each)
                if all(map(self._is_unread, unread[:_READS_AT_ONCE])):
                    await anyio.sleep(_RETRY_SEC)

    async def _try_to_read(self, watched: WatchedRun) -> None:
        try:
            await self.read(watched)
        except SnapshotUnreadableError:
            watched.read_after = self._breaks
        except (BrokerUnavailableError, RefusedError) as error:
            _log.debug("run not read yet", extra={"run_id": watched.run_id, "reason": str(error)})

    def _is_unread(self, watched: WatchedRun) -> bool:
        return watched.read_after < self._breaks and bool(watched.watchers)

    def _have_all_read(self) -> None:
        self._breaks += 1
        self._broken.set()

    def _remember(self, news: RunNews) -> None:
        self._recent.pop(news.run_id, None)
        self._recent[news.run_id] = news
        if len(self._recent) > REMEMBERED:
            _, oldest = self._recent.popitem(last=False)
            self._forgotten = oldest.revision

    def _since(self, revision: int) -> list[RunNews]:
        found = []
        for news in reversed(self._recent.values()):
            if news.revision <= revision:
                break
            found.append(news)
        return found[::-1]

    def _a_moment_ago(self) -> int:
        moment = self._clock() - OVERLAP_SEC
        for news in reversed(self._recent.values()):
            if news.told_at < moment:
                return news.revision
        return self._forgotten
