"""Where a reader of a list has got to, as a text that it can only hand back.

A cursor holds a position and the fingerprint of its filters. It is signed, so that one that was
altered is refused and not followed to somewhere else. The key is derived from what every gateway
of a deployment sees and nobody outside does: when exactly the runs bucket was made. So any gateway
takes any cursor, before and after a restart, and nothing needs to be stored. A bucket that was
made anew counts its revisions anew, and cursors into the former one end with it.
"""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Final

_MAC_BYTES: Final = 12
_BUCKET_CHARS: Final = 8
_CHANGES: Final = "d"
_HISTORY: Final = "c"


class CursorError(ValueError):
    """A cursor that cannot be followed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class ChangesCursor:
    """All changes up to `revision` are told.

    Up to `until` only runs count that were updated after `updated_after`; a later change counts
    whatever its clock said.
    """

    revision: int
    updated_after: float
    until: int


@dataclass(frozen=True, slots=True)
class HistoryCursor:
    """All runs that were created after this place are told."""

    created: float
    key: int


Cursor = ChangesCursor | HistoryCursor


class Cursors:
    """Writes and reads the cursors of one bucket, for one tenant where there are any.

    One that another tenant was given looks like one that was made up.
    """

    def __init__(self, stream: str, created: str, tenant_id: str | None = None) -> None:
        identity = json.dumps([stream, created]).encode()
        self._key = hashlib.sha256(b"pyoco list cursors\0" + identity).digest()
        self._bucket = hashlib.sha256(self._key).hexdigest()[:_BUCKET_CHARS]
        if tenant_id is not None:
            self._key = hmac.digest(self._key, tenant_id.encode(), "sha256")

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        """Return the text of a cursor for a list with these filters."""
        if isinstance(cursor, ChangesCursor):
            place: list[Any] = [_CHANGES, cursor.revision, cursor.updated_after, cursor.until]
        else:
            place = [_HISTORY, cursor.created, cursor.key]
        payload = json.dumps([self._bucket, fingerprint, *place], separators=(",", ":")).encode()
        return _encoded(payload + self._mac(payload))

    def read(self, text: str, fingerprint: str) -> Cursor:
        """Return the cursor in a text; raise CursorError where it is not ours or not for this."""
        bucket, filters, place = _decoded(text)
        if bucket != self._bucket:
            raise CursorError("belongs to a bucket that is no longer there; start anew without it")
        payload = _payload(text)
        if not hmac.compare_digest(_encoded(payload + self._mac(payload)), text):
            raise CursorError("was altered; pass it on exactly as it was given")
        if filters != fingerprint:
            raise CursorError("belongs to other filters; repeat those it was given with")
        if place[0] == _CHANGES:
            return ChangesCursor(*place[1:])
        return HistoryCursor(*place[1:])

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")[:_MAC_BYTES]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _payload(text: str) -> bytes:
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True)[:-_MAC_BYTES]


def _decoded(text: str) -> tuple[str, str, list[Any]]:
    try:
        bucket, filters, *place = json.loads(_payload(text))
    # Of text that is not base64, not JSON, nested too deeply, or of another shape.
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise CursorError("is not one that was given out") from error
    return bucket, filters, place
