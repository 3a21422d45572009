"""Addresses of gateways as they may be shown."""

from urllib.parse import urlsplit, urlunsplit


def shown_address(server: str) -> str:
    """Return an address without the name and password that may stand in it."""
    url = urlsplit(server)
    return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
