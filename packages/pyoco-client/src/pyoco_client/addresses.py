"""Addresses of gateways in messages."""

from urllib.parse import urlsplit, urlunsplit


def shown_address(server: str) -> str:
    """Return an address without user name and password."""
    url = urlsplit(server)
    return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
