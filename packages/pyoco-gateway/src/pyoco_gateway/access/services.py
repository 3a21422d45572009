"""Objects that the access middleware and streams receive."""

from dataclasses import dataclass

from pyoco_gateway.access.key_check import KeyCheck
from pyoco_gateway.access.stream_permits import StreamPermits
from pyoco_gateway.http.provided import Provided


@dataclass(frozen=True)
class AccessServices(Provided):
    """The key check and the permits of open streams; None if authentication is off."""

    key_check: KeyCheck | None = None
    stream_permits: StreamPermits | None = None
