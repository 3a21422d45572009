"""Detects requests that a page of another origin makes a browser send."""

from typing import Final

from pyoco_protocol.settings.origins import Origin, origin_in

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def foreign_origin(
    *,
    origin: str | None,
    fetch_site: str | None,
    host: str | None,
    trusted: frozenset[Origin] = frozenset(),
) -> str | None:
    """Return the other origin that caused the request; None if there is none.

    Browsers send `Origin` with every unsafe request, and newer ones `Sec-Fetch-Site`; a page can
    neither omit nor change them. Other programs send neither. `host` is the Host header; pages of
    the `trusted` origins count as the gateway's own.
    """
    page = None if origin is None else origin_in(origin)
    if page is not None and page in trusted:
        return None
    if fetch_site == "same-origin":
        # `Origin` may differ: a proxy may terminate TLS or change the Host header, and a form on a
        # page with `Referrer-Policy: no-referrer` sends `null`.
        return None
    # `none`: the user entered the address. A browser extension sends it too, with an Origin.
    if fetch_site not in (None, "none"):
        return origin or f"a {fetch_site} page"
    # The gateway serves plain HTTP.
    if origin is None or (page is not None and page == origin_in(f"http://{host or ''}")):
        return None
    return origin
