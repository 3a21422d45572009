"""Reads the API key from the headers of a request."""

from collections.abc import Iterable
from typing import Final

_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"bearer "
_BLANK: Final = b" \t"
# Several times the length of a key.
_MAX_BYTES: Final = 256
# Stands for a value that cannot be a key.
UNREADABLE: Final = ""


def key_in(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> str | None:
    """Return the key in the headers of a request; None if there is none.

    `header` is the lower-case name of the key header; `Authorization: Bearer` is read too.
    Returns `UNREADABLE` for a value that cannot be a key, and for several different keys: a proxy
    and the gateway must not disagree about which key counts.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == _AUTHORIZATION and value[: len(_BEARER)].lower() == _BEARER:
            key = value[len(_BEARER) :].strip(_BLANK)
        elif name == header:
            key = value.strip(_BLANK)
        elif name == _AUTHORIZATION:
            # Another scheme; counted, because a second `Authorization` header is ambiguous.
            key = b""
        else:
            continue
        if name in found:
            return UNREADABLE
        found[name] = key
    # The same key in both headers is not ambiguous.
    keys = set(filter(None, found.values()))
    if not keys:
        return None
    key = keys.pop()
    if keys or len(key) > _MAX_BYTES or not key.isascii():
        return UNREADABLE
    return key.decode()
