"""Whom limits take for one caller: an address, or a network where one host has a whole one."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

# What a provider gives to one customer at the least, who may use any address in it.
_IPV6_PREFIX: Final = 64


def peer_of(scope: Mapping[str, Any]) -> str:
    """Return where the request comes from, as limits count it; "" where that is not known."""
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
