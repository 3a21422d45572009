"""Client addresses from `X-Forwarded-For`, if trusted proxies set it."""

import ipaddress
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_protocol.settings.http_server import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEADER: Final = b"x-forwarded-for"
# Longer chains of proxies do not occur; entries before these are ignored.
_MAX_HOPS: Final = 32


def client_behind(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the nearest address that is not a trusted proxy.

    `forwarded` holds the values of all `X-Forwarded-For` headers, in order. Each proxy appends the
    address of its caller, so the addresses are read from the end. Those before the first
    untrusted address were written by that caller and prove nothing.
    """
    hops = [hop for value in forwarded for hop in value.split(",")]
    nearest = peer
    for hop in reversed(hops[-_MAX_HOPS:]):
        address = _address_in(hop)
        if address is None or not _is_trusted(nearest, trusted):
            break
        nearest = str(address)
    return nearest


def _is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    address = _address_in(peer)
    return address is not None and any(address in network for network in trusted)


def _address_in(text: str) -> Address | None:
    """Return the address in `text`; some proxies append a port."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


class ForwardedFor:
    """Middleware that replaces the client of a request by the one a trusted proxy names."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = tuple(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the address of its client."""
        if (client := scope.get("client")) is not None:
            forwarded = [
                value.decode("latin-1") for name, value in scope["headers"] if name == _HEADER
            ]
            address = client_behind(client[0], forwarded, self._trusted)
            if address != client[0]:
                # The header does not name the port.
                scope["client"] = (address, 0)
        await self._app(scope, receive, send)
