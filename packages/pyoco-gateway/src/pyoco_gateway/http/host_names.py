"""Host names accepted when authentication is off.

DNS rebinding: a web page can make its own host name resolve to the gateway's address. The browser
then treats the gateway as part of that page's site and lets the page read and change everything.
Only the Host header still carries the page's name.
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
    """Return the normalized host of `host:port` or `host`; None for any other text."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    if match["v6"] is None:
        return normalized(match["name"])
    try:
        return str(ipaddress.IPv6Address(match["v6"]))
    except ValueError:
        return None


def normalized(host: str) -> str:
    """Return a host name or address in lower case, without a trailing dot."""
    lowered = host.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(lowered))
    except ValueError:
        return lowered


def is_local(host: str) -> bool:
    """Return whether the normalized `host` is `localhost` or a loopback address."""
    if host == _LOCAL_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AllowedHosts:
    """The host names and addresses that the gateway answers to.

    With `only_local`, a request from another machine must name one of the `names`.
    """

    def __init__(self, names: Iterable[str], *, only_local: bool = False) -> None:
        self.names: frozenset[str] = frozenset(map(normalized, names))
        self._only_local = only_local

    def allow(self, host: str, local_address: str | None) -> bool:
        """Return whether to answer a request for `host` that arrived at `local_address`.

        The local address itself is accepted: rebinding works with names only. It is None for a
        Unix socket.
        """
        if host in self.names:
            return True
        if self._only_local and local_address is not None and not is_local(local_address):
            return False
        return is_local(host) or host == local_address
