"""Detection of requests from pages of other sites."""

import pytest

from pyoco_gateway.http.origins import foreign_origin

HOST = "127.0.0.1:8000"


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        # Not a browser.
        (None, None),
        # A page of the gateway, in old and new browsers.
        ("http://127.0.0.1:8000", None),
        ("http://127.0.0.1:8000", "same-origin"),
        (None, "same-origin"),
        (None, "none"),
        # Behind a proxy that changes the Host header; a page cannot set Sec-Fetch-Site.
        ("https://pyoco.example", "same-origin"),
        # The host is in the allowed names.
        ("https://dashboard.example", None),
        ("https://dashboard.example:8443", "cross-site"),
    ],
)
def test_programs_and_own_pages_are_not_foreign(origin: str | None, fetch_site: str | None) -> None:
    allowed = frozenset({"dashboard.example"})

    assert foreign_origin(origin=origin, fetch_site=fetch_site, host=HOST, allowed=allowed) is None


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        ("https://evil.example", None),
        ("https://evil.example", "cross-site"),
        # Another service on the same machine is another site.
        ("http://127.0.0.1:3000", None),
        ("http://127.0.0.1:3000", "same-site"),
        ("http://localhost:8000", None),
        ("null", None),
        ("", None),
        ("file://", None),
        ("127.0.0.1:8000", None),
        (None, "cross-site"),
        (None, "same-site"),
        (None, "something new"),
        ("https://dashboard.example.evil.example", None),
        ("https://evil.example#dashboard.example", None),
    ],
)
def test_pages_of_other_sites_are_foreign(origin: str | None, fetch_site: str | None) -> None:
    allowed = frozenset({"dashboard.example"})

    found = foreign_origin(origin=origin, fetch_site=fetch_site, host=HOST, allowed=allowed)

    assert found is not None
