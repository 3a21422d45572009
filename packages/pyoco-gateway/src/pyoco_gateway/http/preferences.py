"""The `Prefer` header of a request (RFC 7240)."""

import re
from collections.abc import Iterable
from typing import Final

PREFER: Final = "Prefer"
_HANDLING: Final = b"handling"
_STRICT: Final = b"strict"
# Commas inside quotes do not separate preferences. A quote that is not closed lasts to the end.
_PREFERENCE: Final = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*+(?:"|\\?$))++', re.DOTALL)


def prefers_strict(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request asks for `handling=strict`; of several preferences the first one counts."""
    for name, value in headers:
        if name != b"prefer":
            continue
        for preference in _PREFERENCE.findall(value):
            token, _, chosen = preference.partition(b";")[0].partition(b"=")
            if token.strip().lower() == _HANDLING:
                return bool(chosen.strip().strip(b'"').lower() == _STRICT)
    return False
