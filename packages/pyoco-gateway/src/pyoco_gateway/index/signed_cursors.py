"""Opaque cursors: a reader's position in a list, as signed text.

A cursor holds a position and the fingerprint of the list's filters. The signature makes altered
cursors invalid. Its key is derived from the exact creation time of the stream, which every gateway
of a deployment sees and callers do not. So every gateway accepts every cursor, also after a
restart, and nothing is stored. A recreated stream has new revisions, so its predecessor's cursors
become invalid.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any, Final

_MAC_BYTES: Final = 12
_STREAM_CHARS: Final = 8


class CursorError(ValueError):
    """A cursor is not usable; the text says why and what to do."""


class SignedCursors:
    """Writes and reads the cursors of one stream, for one tenant if there are tenants.

    Another tenant's cursor is refused like a forged one.
    """

    def __init__(self, stream: str, created: str, tenant_id: str | None = None) -> None:
        identity = json.dumps([stream, created]).encode()
        self._key = hashlib.sha256(b"pyoco list cursors\0" + identity).digest()
        self._stream = hashlib.sha256(self._key).hexdigest()[:_STREAM_CHARS]
        if tenant_id is not None:
            self._key = hmac.digest(self._key, tenant_id.encode(), "sha256")

    def write(self, position: Sequence[Any], fingerprint: str) -> str:
        """Return a position as text, bound to the filters with this fingerprint."""
        values = [self._stream, fingerprint, *position]
        payload = json.dumps(values, separators=(",", ":")).encode()
        return _encoded(payload + self._mac(payload))

    def read(self, text: str, fingerprint: str) -> list[Any]:
        """Return the position; raise CursorError if it is not ours, or not for these filters."""
        stream, filters, position = _decoded(text)
        if stream != self._stream:
            raise CursorError(
                "belongs to stored data that no longer exists; start again without it"
            )
        payload = _payload(text)
        if not hmac.compare_digest(_encoded(payload + self._mac(payload)), text):
            raise CursorError("was altered; send it exactly as received")
        if filters != fingerprint:
            raise CursorError("belongs to other filters; send the filters of the first page again")
        return position

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")[:_MAC_BYTES]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _payload(text: str) -> bytes:
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True)[:-_MAC_BYTES]


def _decoded(text: str) -> tuple[str, str, list[Any]]:
    try:
        stream, filters, *position = json.loads(_payload(text))
    # Not base64, not JSON, nested too deeply, or of another shape.
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise CursorError("is not a valid cursor") from error
    return stream, filters, position
