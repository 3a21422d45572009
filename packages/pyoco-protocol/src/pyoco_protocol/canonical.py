"""Canonical JSON: equal values give equal bytes, so they can be hashed and compared."""

import json
from typing import Final

from pydantic import JsonValue

# Made once: a new encoder takes as long as a small value.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def canonical_json(value: JsonValue) -> bytes:
    """Return JSON in UTF-8 with sorted keys and without spaces; raise ValueError for NaN.

    A text that is not valid Unicode (a lone surrogate) raises ValueError too.
    """
    return _ENCODER.encode(value).encode()
