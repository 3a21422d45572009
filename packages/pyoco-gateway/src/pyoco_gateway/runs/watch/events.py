"""What a client that watches is told: of one run, or of all that it wants to see."""

import json
import time
from typing import Final

from pyoco_gateway.runs.views import run_json
from pyoco_gateway.runs.watch.hub import WatchedRun, WatchedRuns
from pyoco_gateway.runs.watch.states import Mark, RunNews, RunState
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.runs.snapshot import RunSnapshot

# Of no use to a list: they change all the time, or mean something to us alone.
_UNLISTED: Final = frozenset({"heartbeat_at", "instance_id", "queued_again_at", "tenant_id"})


class RunEvents:
    """Each change of one run, to its end; a heartbeat of its worker alone is no change."""

    def __init__(
        self, watched: WatchedRun, wakeup: Wakeup, *, with_records: bool, told: Mark | None
    ) -> None:
        self.wakeup = wakeup
        self.is_over = False
        self._watched = watched
        self._with_records = with_records
        self._told = told

    def take(self) -> bytes | None:
        """Return the latest snapshot, if the client does not have it."""
        state = self._watched.state
        if self.is_over or state is None or (state.mark == self._told and not state.is_gone):
            return None
        self._told = state.mark
        self.is_over = state.is_gone or state.is_terminal
        if state.is_gone:
            data = sse.beat_json(time.time(), state.run_id)
            return sse.frame("gone", data, event_id=state.revision)
        snapshot = state.snapshot
        if snapshot is None:
            # Only its outline can be read. The next one may be better.
            return None
        form = "records" if self._with_records else "plain"
        return state.encoded(form, lambda: self._frame(state, snapshot))

    def heartbeat(self) -> bytes:
        """Return an event that says no more than that we are there."""
        return sse.frame("heartbeat", sse.beat_json(time.time(), self._watched.run_id))

    def _frame(self, state: RunState, snapshot: RunSnapshot) -> bytes:
        body = run_json(snapshot, with_records=self._with_records)
        return _snapshot_frame(state.run_id, body, state.revision)


class RunsEvents:
    """Each change of all runs that a client wants to see, without end."""

    def __init__(self, watched: WatchedRuns, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.is_over = False
        self._watched = watched
        self._began = False

    def take(self) -> bytes | None:
        """Return where the stream begins, then one run after the other that has changed."""
        watched = self._watched
        if watched.restarted or not self._began:
            event = "reset" if watched.restarted else "ready"
            self._began, watched.restarted = True, False
            position = sse.Position(revision=watched.revision, ts=time.time())
            return sse.frame(event, position.model_dump_json(), event_id=watched.revision)
        news = watched.take()
        return None if news is None else news.encoded("listed", lambda: _listed(news))

    def heartbeat(self) -> bytes:
        """Return an event that says no more than that we are there."""
        return sse.frame("heartbeat", sse.beat_json(time.time()))


def _listed(news: RunNews) -> bytes:
    if news.outline is None:
        data = sse.beat_json(time.time(), news.run_id)
        return sse.frame("gone", data, event_id=news.revision)
    body = news.outline.model_dump_json(exclude=set(_UNLISTED))
    return _snapshot_frame(news.run_id, body, news.revision)


def _snapshot_frame(run_id: str, body: str, revision: int) -> bytes:
    # Put together by hand: the snapshot is JSON already, and may be large.
    data = f'{{"run_id":{json.dumps(run_id)},"snapshot":{body},"ts":{time.time():.6f}}}'
    return sse.frame("snapshot", data, event_id=revision)
