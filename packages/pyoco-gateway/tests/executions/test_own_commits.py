"""Commits of this gateway on their way back from the broker."""

import pytest

from executions.log.log_parts import ANN, AT
from pyoco_gateway.executions import own_commits
from pyoco_gateway.executions.feed import CommitChange, CommitFeed
from pyoco_gateway.executions.own_commits import OwnCommits
from pyoco_protocol.executions.commits import CommandRecord, CommitRecord, EventRecord
from pyoco_protocol.jetstream.bucket_watch import Entry


class Follower:
    def __init__(self) -> None:
        self.changes: list[CommitChange] = []

    def on_change(self, change: CommitChange) -> None:
        self.changes.append(change)

    def on_reset(self) -> None: ...

    def on_resumed(self) -> None: ...

    def on_caught_up(self) -> None: ...


def commit(execution_id: str = "e", *, commit_id: str = "x") -> CommitRecord:
    return CommitRecord(
        commit_id=commit_id,
        execution_id=execution_id,
        tenant_id="acme",
        n=1,
        first_seq=1,
        at=AT,
        prev_hash="a" * 64,
        command=CommandRecord("ArchiveExecution", ANN),
        events=(EventRecord("EXECUTION_ARCHIVED", {}),),
        head={},
    )


def test_an_own_commit_is_passed_on_as_it_was_appended() -> None:
    own, follower = OwnCommits(), Follower()
    record = commit()
    own.expect(record, record.to_bytes())
    feed = CommitFeed([follower], own)

    for revision in (1, 2):
        feed.on_entry(Entry("e", revision, record.to_bytes(), 0.0, 0))

    first, again = follower.changes
    assert (first.is_own, again.is_own) == (True, False)
    assert first.record is record
    assert again.record == record


def test_a_commit_of_another_gateway_is_not_an_own_one() -> None:
    own, follower = OwnCommits(), Follower()
    mine, theirs = commit(commit_id="mine"), commit(commit_id="theirs")
    own.expect(mine, mine.to_bytes())
    feed = CommitFeed([follower], own)

    feed.on_entry(Entry("e", 1, theirs.to_bytes(), 0.0, 0))
    feed.on_entry(Entry("e", 2, mine.to_bytes(), 0.0, 0))

    assert [(each.is_own, each.record) for each in follower.changes] == [
        (False, theirs),
        (True, mine),
    ]


def test_a_forgotten_commit_leaves_another_one_of_its_execution() -> None:
    """Two requests with one key may create the same execution at once."""
    own = OwnCommits()
    refused, stored = commit(commit_id="refused"), commit(commit_id="stored")
    for record in (refused, stored):
        own.expect(record, record.to_bytes())
    own.forget(refused)
    assert own.take("e", stored.to_bytes()) is stored


def test_commits_that_are_never_delivered_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_commits, "_MAX_EXPECTED", 2)
    own = OwnCommits()
    records = {name: commit(name) for name in "abc"}
    for record in records.values():
        own.expect(record, record.to_bytes())
    found = {name: own.take(name, record.to_bytes()) for name, record in records.items()}
    assert found == {**records, "a": None}
