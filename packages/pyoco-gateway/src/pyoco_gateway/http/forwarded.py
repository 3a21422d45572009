"""Where a request comes from, behind proxies that are trusted to say so."""

import ipaddress
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_protocol.settings.http_server import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEADER: Final = b"x-forwarded-for"
# Nobody stands behind more proxies; the rest is padding.
_MAX_HOPS: Final = 32


def peer_behind(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the nearest address that is no trusted proxy.

    `forwarded` are the values of all `X-Forwarded-For` headers, in order. Each proxy adds whom it
    was called by at the end, so they are read from there; what stands before the first address
    that is not trusted was written by whoever sits there.
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
    """Return the address in `text`, which some proxies follow with a port."""
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


class PeerAddresses:
    """Tells all behind it who calls: the peer, or whom a trusted proxy names."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = tuple(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the address of its caller."""
        if scope["type"] == "http" and (client := scope.get("client")) is not None:
            forwarded = [
                value.decode("latin-1") for name, value in scope["headers"] if name == _HEADER
            ]
            caller = peer_behind(client[0], forwarded, self._trusted)
            if caller != client[0]:
                # Of its port nothing is known.
                scope["client"] = (caller, 0)
        await self._app(scope, receive, send)
