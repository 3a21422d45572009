"""The events sent to a client that watches one run or a list of runs."""

import json
import time
from typing import Final

from pyoco_gateway.runs.views import run_json
from pyoco_gateway.runs.watch.hub import RunListSubscription, WatchedRun
from pyoco_gateway.runs.watch.states import RunState, RunUpdate, StateKey
from pyoco_gateway.streams import sse
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_protocol.runs.snapshot import RunSnapshot

# Left out of list events: internal fields, and fields that change without an event.
_UNLISTED: Final = frozenset({"heartbeat_at", "instance_id", "queued_again_at", "tenant_id"})


class RunEvents:
    """Every change of one run until it ends, without worker heartbeats."""

    def __init__(
        self, watched: WatchedRun, wakeup: Wakeup, *, with_records: bool, sent: StateKey | None
    ) -> None:
        self.wakeup = wakeup
        self.is_over = False
        self._watched = watched
        self._with_records = with_records
        self._sent = sent

    def take(self) -> bytes | None:
        """Return an event with the latest snapshot; None if the client has it already."""
        state = self._watched.state
        if self.is_over or state is None or (state.key == self._sent and not state.is_gone):
            return None
        self._sent = state.key
        self.is_over = state.is_gone or state.is_terminal
        if state.is_gone:
            data = sse.beat_json(time.time(), state.run_id)
            return sse.frame("gone", data, event_id=state.revision)
        snapshot = state.snapshot
        if snapshot is None:
            # Only the outline is readable. The next record may be valid.
            return None
        form = "records" if self._with_records else "plain"
        return state.encoded(form, lambda: self._frame(state, snapshot))

    def heartbeat(self) -> bytes:
        """Return an event that keeps the connection open."""
        return sse.frame("heartbeat", sse.beat_json(time.time(), self._watched.run_id))

    def _frame(self, state: RunState, snapshot: RunSnapshot) -> bytes:
        body = run_json(snapshot, with_records=self._with_records)
        return _snapshot_frame(state.run_id, body, state.revision)


class RunListEvents:
    """Every change of the runs that a client watches, without end."""

    def __init__(self, subscription: RunListSubscription, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.is_over = False
        self._subscription = subscription
        self._has_started = False

    def take(self) -> bytes | None:
        """Return `ready` or `reset` first, then one event for each changed run."""
        subscription = self._subscription
        if subscription.was_reset or not self._has_started:
            event = "reset" if subscription.was_reset else "ready"
            self._has_started, subscription.was_reset = True, False
            position = sse.Position(revision=subscription.revision, ts=time.time())
            return sse.frame(event, position.model_dump_json(), event_id=subscription.revision)
        update = subscription.take()
        return None if update is None else update.encoded("listed", lambda: _list_frame(update))

    def heartbeat(self) -> bytes:
        """Return an event that keeps the connection open."""
        return sse.frame("heartbeat", sse.beat_json(time.time()))


def _list_frame(update: RunUpdate) -> bytes:
    if update.outline is None:
        data = sse.beat_json(time.time(), update.run_id)
        return sse.frame("gone", data, event_id=update.revision)
    body = update.outline.model_dump_json(exclude=set(_UNLISTED))
    return _snapshot_frame(update.run_id, body, update.revision)


def _snapshot_frame(run_id: str, body: str, revision: int) -> bytes:
    # Concatenated by hand: the snapshot is JSON already, and may be large.
    data = f'{{"run_id":{json.dumps(run_id)},"snapshot":{body},"ts":{time.time():.6f}}}'
    return sse.frame("snapshot", data, event_id=revision)
