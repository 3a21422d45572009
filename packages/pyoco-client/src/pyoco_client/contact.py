"""Knows whether a watch still gets news, and tells its caller when that changes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_client.errors import PyocoError, TooManyRequestsError
from pyoco_client.http_call import Call

# A gateway sends heartbeats also while it has no broker, and so no news. After this time without
# anything else, the watch sends a request that the gateway can only answer with its broker.
_QUIET_SEC: Final = 4.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The gateway does not answer, or has no broker; the watch tries again.

    What is known is from `since` (unix seconds) or earlier. `error` is the first failure.
    """

    error: PyocoError
    since: float


OnOutage = Callable[[Outage | None], None]
Probe = Callable[[], Call]


class Contact:
    """The contact of a watch to its gateway; tells `on_outage` of each outage, and of its end."""

    def __init__(self, on_outage: OnOutage | None = None) -> None:
        self._on_outage = on_outage
        self._heard_at = time.monotonic()
        self._is_out = False
        # The last failure since the last news, if any.
        self.trouble: PyocoError | None = None

    def beat(self) -> bool:
        """Take a heartbeat; return whether to ask if it means that nothing has changed."""
        if self._on_outage is None:
            self.heard()
            return False
        return self._is_out or time.monotonic() - self._heard_at > _QUIET_SEC

    def failed(self, error: PyocoError) -> None:
        """Take a failure that may pass."""
        self.trouble = error
        # A refusal for too many requests is an answer: the watch continues in another way.
        if self._is_out or self._on_outage is None or isinstance(error, TooManyRequestsError):
            return
        self._is_out = True
        self._on_outage(Outage(error, time.time() - (time.monotonic() - self._heard_at)))

    def heard(self) -> None:
        """Take that everything up to now is known."""
        self.trouble = None
        self._heard_at = time.monotonic()
        if self._is_out and self._on_outage is not None:
            self._is_out = False
            self._on_outage(None)
