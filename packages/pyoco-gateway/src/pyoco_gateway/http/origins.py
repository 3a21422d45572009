"""Detects requests that a page of another site makes a browser send."""

from typing import Final

from pyoco_gateway.http.host_names import host_in

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# `none`: the user entered the address.
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_SCHEMES: Final = ("http://", "https://")


def foreign_origin(
    *,
    origin: str | None,
    fetch_site: str | None,
    host: str | None,
    allowed: frozenset[str] = frozenset(),
) -> str | None:
    """Return the other site that caused the request; None if there is none.

    Browsers send `Origin` with every unsafe request, and newer ones `Sec-Fetch-Site`; a page can
    neither omit nor change them. Other programs send neither. `host` is the Host header; pages of
    the hosts in `allowed` count as the gateway's own.
    """
    authority = None if origin is None else _authority_of(origin)
    if authority is not None and host_in(authority) in allowed:
        return None
    if fetch_site is not None:
        return None if fetch_site in _OWN_SITES else (origin or f"a {fetch_site} page")
    if origin is None or (authority is not None and authority == (host or "").lower()):
        return None
    return origin


def _authority_of(origin: str) -> str | None:
    for scheme in _SCHEMES:
        if origin.startswith(scheme):
            return origin.removeprefix(scheme).lower()
    # `null`: the page has an opaque origin, such as a sandboxed frame.
    return None
