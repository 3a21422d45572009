"""Which key a request shows, in whatever way it does."""

from collections.abc import Iterable
from typing import Final

_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"bearer "
_BLANK: Final = b" \t"
# Several times what a key of ours has; more is not looked at.
_MAX_BYTES: Final = 256
# What no key can be.
UNREADABLE: Final = ""


def key_in(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> str | None:
    """Return the key in the headers of a request; None where there is none.

    `header` is the name, in lower case, of the header for keys; `Authorization: Bearer` will do
    too. `UNREADABLE` stands for what no key of ours can be, and for several keys: which of them
    counts must not depend on who reads them, here or in a proxy before us.
    """
    shown: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == _AUTHORIZATION and value[: len(_BEARER)].lower() == _BEARER:
            key = value[len(_BEARER) :].strip(_BLANK)
        elif name == header:
            key = value.strip(_BLANK)
        elif name == _AUTHORIZATION:
            # Of another kind; whoever takes the first, or the last, of two must not see another.
            key = b""
        else:
            continue
        if name in shown:
            return UNREADABLE
        shown[name] = key
    # The same key in both headers is no doubt.
    keys = set(filter(None, shown.values()))
    if not keys:
        return None
    key = keys.pop()
    if keys or len(key) > _MAX_BYTES or not key.isascii():
        return UNREADABLE
    return key.decode()
