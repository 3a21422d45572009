"""Whether a page of another site is behind a request that changes something."""

from typing import Final

from pyoco_gateway.http.host_names import host_in

# Methods that change nothing.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# A page of ours, or somebody who typed the address.
_OWN: Final = frozenset({"same-origin", "none"})
_SCHEMES: Final = ("http://", "https://")


def foreign_origin(
    *,
    origin: str | None,
    fetch_site: str | None,
    host: str | None,
    allowed: frozenset[str] = frozenset(),
) -> str | None:
    """Return who is behind the request if that is another site; None if it is not.

    Browsers send `Origin` with all that may change something, and newer ones `Sec-Fetch-Site`; no
    page can leave them out or write them. Programs send neither. `host` is the Host header;
    `allowed` are hosts whose pages count as ours.
    """
    authority = None if origin is None else _authority_of(origin)
    if authority is not None and host_in(authority) in allowed:
        return None
    if fetch_site is not None:
        return None if fetch_site in _OWN else (origin or f"a {fetch_site} page")
    if origin is None or (authority is not None and authority == (host or "").lower()):
        return None
    return origin


def _authority_of(origin: str) -> str | None:
    for scheme in _SCHEMES:
        if origin.startswith(scheme):
            return origin.removeprefix(scheme).lower()
    # `null`: a page that hides where it comes from.
    return None
