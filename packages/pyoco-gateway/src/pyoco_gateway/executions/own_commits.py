"""The commits of this gateway that the watch has yet to deliver."""

from typing import Final

from pyoco_protocol.executions.commits import CommitRecord

_MAX_EXPECTED: Final = 256


class OwnCommits:
    """Remembers what was appended, so that the commits of this gateway need not be parsed.

    At most one commit of an execution is expected: its writers take turns.
    """

    def __init__(self) -> None:
        self._expected: dict[str, tuple[CommitRecord, bytes]] = {}

    def expect(self, record: CommitRecord, body: bytes) -> None:
        """Remember a commit that is about to be appended."""
        self._expected.pop(record.execution_id, None)
        self._expected[record.execution_id] = (record, body)
        if len(self._expected) > _MAX_EXPECTED:
            del self._expected[next(iter(self._expected))]

    def forget(self, record: CommitRecord) -> None:
        """Forget a commit that was not stored; another one of its execution stays."""
        if self._expected.get(record.execution_id, (None,))[0] is record:
            del self._expected[record.execution_id]

    def take(self, execution_id: str, body: bytes) -> CommitRecord | None:
        """Return the commit with these bytes if it is expected; the next call returns None."""
        record, expected = self._expected.get(execution_id, (None, b""))
        if record is None or expected != body:
            return None
        del self._expected[execution_id]
        return record
