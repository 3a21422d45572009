"""One watch on the runs bucket for all who follow it: each record is read once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.jetstream.bucket_watch import Entry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run's record as it stands from `revision` on, which orders all changes of all runs."""

    run_id: str
    revision: int
    # None for a run that was deleted or has expired, and for a record that cannot be read.
    outline: RunOutline | None
    # The stored record; None for a run that was deleted or has expired.
    data: bytes | None
    written_at: float
    # How many changes are known to be behind this one.
    pending: int


class RunFollower(Protocol):
    """Who wants to know. None of these may block or raise."""

    def on_change(self, change: RunChange) -> None:
        """A run has changed, or is gone."""

    def on_reset(self) -> None:
        """Forget everything: what follows is told from the beginning."""

    def on_resumed(self) -> None:
        """The watch begins, or goes on after a break in which changes may have gone untold."""

    def on_caught_up(self) -> None:
        """All that was there is told; what follows is new."""


class RunFeed:
    """Reads what the watch tells and passes it on; one record that is unreadable harms no other."""

    def __init__(self, followers: Sequence[RunFollower]) -> None:
        self._followers = tuple(followers)
        self.unreadable = 0

    def on_entry(self, entry: Entry) -> None:
        """Pass a change on."""
        change = RunChange(
            run_id=entry.key,
            revision=entry.revision,
            outline=self._outline(entry),
            data=entry.value,
            written_at=entry.written_at,
            pending=entry.pending,
        )
        for each in self._followers:
            each.on_change(change)

    def on_reset(self) -> None:
        """Pass it on."""
        for each in self._followers:
            each.on_reset()

    def on_resumed(self) -> None:
        """Pass it on."""
        for each in self._followers:
            each.on_resumed()

    def on_caught_up(self) -> None:
        """Pass it on."""
        for each in self._followers:
            each.on_caught_up()

    def _outline(self, entry: Entry) -> RunOutline | None:
        if entry.value is None:
            return None
        try:
            outline = RunOutline.model_validate_json(entry.value)
        except ValidationError:
            outline = None
        # A record under the id of another run would stand in that one's place here.
        if outline is None or outline.run_id != entry.key:
            self.unreadable += 1
            _log.warning("run record cannot be read", extra={"run_id": entry.key})
            return None
        return outline
