"""API keys of the earlier server, which keeps its records in the same bucket.

They are recognised, so that list and refusal can name them, but not accepted.
"""

import re
from typing import Annotated, Final

from pydantic import StringConstraints

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel

_KEY_ID: Final = r"[0-9a-f]{24}"
_KEY: Final = re.compile(rf"pyoco_{_KEY_ID}\.[A-Za-z0-9_-]{{43}}")


class EarlierKeyRecord(WireModel):
    """The fields of an earlier server's key record that `list` shows."""

    key_id: Annotated[str, StringConstraints(pattern=rf"^{_KEY_ID}$")]
    tenant_id: str
    created_at: UnixSeconds
    revoked_at: UnixSeconds | None = None


def is_earlier_key(text: str) -> bool:
    """Return whether `text` has the form of a key of the earlier server."""
    return _KEY.fullmatch(text) is not None


def is_earlier_key_id(text: str) -> bool:
    """Return whether `text` has the form of a key id of the earlier server."""
    return re.fullmatch(_KEY_ID, text) is not None
