"""By which names a gateway may be called that asks nobody for a key.

A web page can have its own name resolve to an address of ours. The browser then takes us for a
part of that page's site, and lets the page read and change everything here; only the Host header
still tells the page's name.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

# `[::1]:8000`, `127.0.0.1:8000`, `localhost`.
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})?))(?::[0-9]{1,5})?"
)
_LOCAL_NAME: Final = "localhost"


def host_in(authority: str) -> str | None:
    """Return the host of `host:port`, in one spelling; None if that is not what it is."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    if match["v6"] is None:
        return normal(match["name"])
    try:
        return str(ipaddress.IPv6Address(match["v6"]))
    except ValueError:
        return None


def normal(host: str) -> str:
    """Return a name or an address as it is compared: in small letters, without a final dot."""
    lowered = host.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(lowered))
    except ValueError:
        return lowered


def is_of_this_machine(host: str) -> bool:
    """Whether `host`, in its one spelling, means this machine wherever it is said."""
    if host == _LOCAL_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AllowedHosts:
    """The names and addresses under which the gateway answers."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: frozenset[str] = frozenset(map(normal, names))

    def allow(self, host: str, local_address: str | None) -> bool:
        """Whether a request for `host` may be answered that came in at `local_address`.

        The address itself is no name that could have been made to lead here.
        """
        return host in self.names or is_of_this_machine(host) or host == local_address
