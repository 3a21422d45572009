"""Tracks whether a watch still receives news, and reports outages to its caller."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyoco_client.errors import PyocoError, TooManyRequestsError
from pyoco_client.http_call import Call

# A gateway without a broker still sends heartbeats, but no news. After this time with heartbeats
# only, the watch sends a request that the gateway can answer only with its broker.
_QUIET_SEC: Final = 4.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The gateway does not answer, or has no broker; the watch tries again.

    The last news came at `since` (unix seconds). `error` is the first failure.
    """

    error: PyocoError
    since: float


OnOutage = Callable[[Outage | None], None]
Probe = Callable[[], Call]


class Contact:
    """Calls `on_outage` when a watch no longer receives news, and when it does again."""

    def __init__(self, on_outage: OnOutage | None = None) -> None:
        self._on_outage = on_outage
        self._heard_at = time.monotonic()
        self._is_out = False
        # The last failure since the last news, if any.
        self.trouble: PyocoError | None = None

    def beat(self) -> bool:
        """Note a heartbeat; return whether to send a request that checks the broker."""
        if self._on_outage is None:
            self.heard()
            return False
        return self._is_out or time.monotonic() - self._heard_at > _QUIET_SEC

    def failed(self, error: PyocoError) -> None:
        """Note a failure that may pass."""
        self.trouble = error
        # A refusal for too many requests is an answer: the watch continues in another way.
        if self._is_out or self._on_outage is None or isinstance(error, TooManyRequestsError):
            return
        self._is_out = True
        self._on_outage(Outage(error, time.time() - (time.monotonic() - self._heard_at)))

    def heard(self) -> None:
        """Note that the watch is up to date."""
        self.trouble = None
        self._heard_at = time.monotonic()
        if self._is_out and self._on_outage is not None:
            self._is_out = False
            self._on_outage(None)
