"""Passes each commit of the stream of executions to all followers, parsed once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_protocol.executions.commits import (
    CommitDamagedError,
    CommitRecord,
    CommitTooNewError,
    commit_from,
)
from pyoco_protocol.jetstream.bucket_watch import Entry

_log = logging.getLogger(__name__)

# The broker stores messages on such subjects too.
_WILDCARDS: Final = frozenset({"*", ">"})


@dataclass(frozen=True, slots=True)
class CommitChange:
    """A commit of an execution. `revision` is its sequence in the stream."""

    execution_id: str
    revision: int
    # None for a commit that is unreadable, or of a newer version.
    record: CommitRecord | None
    # The bytes of the commit; None for a marker that the broker has put in the place of one.
    data: bytes | None
    written_at: float
    # Number of commits that the broker has yet to deliver after this one.
    pending: int
    # Whether this gateway appended the commit, so that its writer knows the state after it.
    is_own: bool = False


class CommitFollower(Protocol):
    """Receives the commits of all executions. The methods must not block or raise.

    Of the commits that exist at the start, only the last of each execution is delivered. A purge
    removes commits without a message.
    """

    def on_change(self, change: CommitChange) -> None:
        """Handle a commit."""

    def on_reset(self) -> None:
        """Forget everything: all executions are delivered again from the beginning."""

    def on_resumed(self) -> None:
        """Handle the start of the watch, or its resumption after possibly missed commits."""

    def on_caught_up(self) -> None:
        """Handle the end of the stored commits: later commits are new."""


class CommitFeed:
    """Parses the messages of the watch and passes them on; counts those it cannot read."""

    def __init__(self, followers: Sequence[CommitFollower], own_commits: OwnCommits) -> None:
        self._followers = tuple(followers)
        self._own_commits = own_commits
        self.unreadable = 0
        # Commits of a newer version, which this one must not guess at.
        self.too_new = 0

    def on_entry(self, entry: Entry) -> None:
        """Parse a commit and pass it on."""
        own = None if entry.value is None else self._own_commits.take(entry.key, entry.value)
        change = CommitChange(
            execution_id=entry.key,
            revision=entry.revision,
            record=own or self._record(entry),
            data=entry.value,
            written_at=entry.written_at,
            pending=entry.pending,
            is_own=own is not None,
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
        """Pass the end of the stored commits on."""
        for each in self._followers:
            each.on_caught_up()

    def _record(self, entry: Entry) -> CommitRecord | None:
        if entry.value is None:
            return None
        fields = {"execution_id": entry.key, "revision": entry.revision}
        try:
            record = commit_from(entry.value)
        except CommitTooNewError:
            self.too_new += 1
            _log.warning("commit is of a newer version", extra=fields)
            return None
        except CommitDamagedError:
            record = None
        # A commit stored under another execution's id would replace that execution here, and the
        # purge of a wildcard would remove all executions.
        if record is None or record.execution_id != entry.key or entry.key in _WILDCARDS:
            self.unreadable += 1
            _log.warning("commit cannot be read", extra=fields)
            return None
        return record
