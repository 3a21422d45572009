"""What requests need of the API keys while the gateway runs."""

from dataclasses import dataclass

from pyoco_gateway.access.key_check import KeyCheck
from pyoco_gateway.access.leases import KeyLeases
from pyoco_gateway.http.provided import Provided


@dataclass(frozen=True)
class AccessServices(Provided):
    """The key check and the leases of open streams; None where authentication is off."""

    key_check: KeyCheck | None = None
    leases: KeyLeases | None = None
