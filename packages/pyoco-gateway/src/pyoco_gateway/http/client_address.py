"""The client address that rate limits and stream limits count by."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

# Providers assign at least a /64 to one customer, who may use any address in it.
_IPV6_PREFIX: Final = 64


def client_address_of(scope: Mapping[str, Any]) -> str:
    """Return the client's IPv4 address or IPv6 /64 network; "" if the address is unknown."""
    client: tuple[str, int] | None = scope.get("client")
    if client is None:
        return ""
    host = client[0]
    return _network_of(host) if ":" in host else host


@lru_cache(maxsize=4096)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False)
    return str(network)
