"""Canonical JSON: equal values give equal bytes, so they can be hashed and compared."""

import json

from pydantic import JsonValue


def canonical_json(value: JsonValue) -> bytes:
    """Return JSON in UTF-8 with sorted keys and without spaces; raise ValueError for NaN.

    A text that is not valid Unicode (a lone surrogate) raises ValueError too.
    """
    text = json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return text.encode()
