"""Passes each change of the runs bucket to all followers, parsed once."""

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
    """A new version of a run's record. `revision` orders the changes of all runs."""

    run_id: str
    revision: int
    # None for a deleted or expired run, and for an unreadable record.
    outline: RunOutline | None
    # The stored record; None for a deleted or expired run.
    data: bytes | None
    written_at: float
    # Number of changes that the broker has yet to deliver after this one.
    pending: int


class RunFollower(Protocol):
    """Receives the changes of all runs. The methods must not block or raise."""

    def on_change(self, change: RunChange) -> None:
        """Handle a changed, deleted or expired run."""

    def on_reset(self) -> None:
        """Forget everything: all runs are delivered again from the beginning."""

    def on_resumed(self) -> None:
        """Handle the start of the watch, or its resumption after possibly missed changes."""

    def on_caught_up(self) -> None:
        """Handle the end of the stored records: later changes are new."""


class RunFeed:
    """Parses the entries of the watch and passes them on; counts unreadable records."""

    def __init__(self, followers: Sequence[RunFollower]) -> None:
        self._followers = tuple(followers)
        self.unreadable = 0

    def on_entry(self, entry: Entry) -> None:
        """Parse a change and pass it on."""
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
        """Pass the reset on."""
        for each in self._followers:
            each.on_reset()

    def on_resumed(self) -> None:
        """Pass the resumption on."""
        for each in self._followers:
            each.on_resumed()

    def on_caught_up(self) -> None:
        """Pass the end of the stored records on."""
        for each in self._followers:
            each.on_caught_up()

    def _outline(self, entry: Entry) -> RunOutline | None:
        if entry.value is None:
            return None
        try:
            outline = RunOutline.model_validate_json(entry.value)
        except ValidationError:
            outline = None
        # A record stored under another run's id would replace that run here.
        if outline is None or outline.run_id != entry.key:
            self.unreadable += 1
            _log.warning("run record cannot be read", extra={"run_id": entry.key})
            return None
        return outline
