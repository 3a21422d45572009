"""Origins of web pages: scheme, host and port."""

import ipaddress
import re
from typing import Final, NamedTuple

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65_535
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_][a-z0-9_.-]{0,252}))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)


class Origin(NamedTuple):
    """The origin of a web page, as browsers compare it; an IPv6 address has its brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the origin with its port."""
        return f"{self.scheme}://{self.host}:{self.port}"


def origin_in(text: str) -> Origin | None:
    """Return the origin that `text` spells; None for any other text, such as `null`.

    As in browsers, case does not matter, a missing port is the default port of the scheme, and a
    name with a trailing dot is another host.
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port <= _MAX_PORT:
        return None
    if match["v6"] is None:
        return Origin(scheme, match["name"].lower(), port)
    try:
        return Origin(scheme, f"[{ipaddress.IPv6Address(match['v6'])}]", port)
    except ValueError:
        return None
