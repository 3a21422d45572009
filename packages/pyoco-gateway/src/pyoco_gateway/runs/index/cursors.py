"""Opaque cursors: a reader's position in a list, as signed text.

A cursor holds a position and the fingerprint of the list's filters. The signature makes altered
cursors invalid. Its key is derived from the exact creation time of the runs bucket, which every
gateway of a deployment sees and callers do not. So every gateway accepts every cursor, also after a
restart, and nothing is stored. A recreated bucket has new revisions, so its predecessor's cursors
become invalid.
"""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Final

from pyoco_gateway.runs.index.list_query import Order

_MAC_BYTES: Final = 12
_BUCKET_CHARS: Final = 8
# The kinds of cursors. Letters of earlier forms are not used again.
_WALK: Final = "w"
_FOLLOW: Final = "f"


class CursorError(ValueError):
    """A cursor is not usable; the text says why and what to do."""


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
    """Writes and reads the cursors of one bucket, for one tenant if there are tenants.

    Another tenant's cursor is refused like a forged one.
    """

    def __init__(self, stream: str, created: str, tenant_id: str | None = None) -> None:
        identity = json.dumps([stream, created]).encode()
        self._key = hashlib.sha256(b"pyoco list cursors\0" + identity).digest()
        self._bucket = hashlib.sha256(self._key).hexdigest()[:_BUCKET_CHARS]
        if tenant_id is not None:
            self._key = hmac.digest(self._key, tenant_id.encode(), "sha256")

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        """Return a cursor as text, bound to the filters with this fingerprint."""
        if isinstance(cursor, FollowCursor):
            position: list[Any] = [_FOLLOW, cursor.revision]
        else:
            place = (cursor.time, cursor.key, cursor.resume, cursor.updated_after)
            position = [_WALK, cursor.order.value, *place]
        payload = json.dumps([self._bucket, fingerprint, *position], separators=(",", ":")).encode()
        return _encoded(payload + self._mac(payload))

    def read(self, text: str, fingerprint: str) -> Cursor:
        """Return the cursor; raise CursorError if it is not ours, or not for these filters."""
        bucket, filters, position = _decoded(text)
        if bucket != self._bucket:
            raise CursorError("belongs to a bucket that no longer exists; start again without it")
        payload = _payload(text)
        if not hmac.compare_digest(_encoded(payload + self._mac(payload)), text):
            raise CursorError("was altered; send it exactly as received")
        if filters != fingerprint:
            raise CursorError("belongs to other filters; send the filters of the first page again")
        if position[0] == _FOLLOW:
            return FollowCursor(*position[1:])
        if position[0] == _WALK:
            return WalkCursor(Order(position[1]), *position[2:])
        raise CursorError("was made by another release; start again without it")

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")[:_MAC_BYTES]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _payload(text: str) -> bytes:
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True)[:-_MAC_BYTES]


def _decoded(text: str) -> tuple[str, str, list[Any]]:
    try:
        bucket, filters, *position = json.loads(_payload(text))
    # Not base64, not JSON, nested too deeply, or of another shape.
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise CursorError("is not a valid cursor") from error
    return bucket, filters, position
