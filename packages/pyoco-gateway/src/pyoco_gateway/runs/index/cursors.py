"""Cursors of run lists: positions of walks and of followers, as signed text."""

from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.index.signed_cursors import CursorError, SignedCursors
from pyoco_gateway.runs.index.list_query import Order

# The kinds of cursors. Letters of earlier forms are not used again.
_WALK: Final = "w"
_FOLLOW: Final = "f"


@dataclass(frozen=True, slots=True)
class WalkCursor:
    """The reader has all runs that come before this position in a list, newest first.

    `resume` is the revision of the first page: a follower continues after it.
    """

    order: Order
    time: float
    key: int
    resume: int
    # Only runs updated later are listed; None for all runs.
    updated_after: float | None = None


@dataclass(frozen=True, slots=True)
class FollowCursor:
    """The reader has all changes up to `revision`."""

    revision: int


Cursor = WalkCursor | FollowCursor


def needed_revision(cursor: Cursor) -> int:
    """Return the revision that an index must hold before it can continue at the cursor.

    An older index would show runs at positions that the reader has passed.
    """
    return cursor.revision if isinstance(cursor, FollowCursor) else cursor.resume


class Cursors:
    """Writes and reads the cursors of one bucket, for one tenant if there are tenants."""

    def __init__(self, stream: str, created: str, tenant_id: str | None = None) -> None:
        self._signed = SignedCursors(stream, created, tenant_id)

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        """Return a cursor as text, bound to the filters with this fingerprint."""
        if isinstance(cursor, FollowCursor):
            position: list[Any] = [_FOLLOW, cursor.revision]
        else:
            place = (cursor.time, cursor.key, cursor.resume, cursor.updated_after)
            position = [_WALK, cursor.order.value, *place]
        return self._signed.write(position, fingerprint)

    def read(self, text: str, fingerprint: str) -> Cursor:
        """Return the cursor; raise CursorError if it is not ours, or not for these filters."""
        position = self._signed.read(text, fingerprint)
        if position[0] == _FOLLOW:
            return FollowCursor(*position[1:])
        if position[0] == _WALK:
            return WalkCursor(Order(position[1]), *position[2:])
        raise CursorError("was made by another release; start again without it")
