"""Pages of other sites, told from our own and from programs."""

import pytest

from pyoco_gateway.http.origins import foreign_origin

HOST = "127.0.0.1:8000"


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        # A program.
        (None, None),
        # A page of our own, in browsers old and new.
        ("http://127.0.0.1:8000", None),
        ("http://127.0.0.1:8000", "same-origin"),
        (None, "same-origin"),
        (None, "none"),
        # Behind a proxy that changes the Host header; no page can write this one.
        ("https://pyoco.example", "same-origin"),
        # The operator says that this is us.
        ("https://dashboard.example", None),
        ("https://dashboard.example:8443", "cross-site"),
    ],
)
def test_programs_and_pages_of_our_own_may_change_things(
    origin: str | None, fetch_site: str | None
) -> None:
    allowed = frozenset({"dashboard.example"})

    assert foreign_origin(origin=origin, fetch_site=fetch_site, host=HOST, allowed=allowed) is None


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        ("https://evil.example", None),
        ("https://evil.example", "cross-site"),
        # Another service on the same machine is another site to us.
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
def test_pages_of_other_sites_may_not(origin: str | None, fetch_site: str | None) -> None:
    allowed = frozenset({"dashboard.example"})

    found = foreign_origin(origin=origin, fetch_site=fetch_site, host=HOST, allowed=allowed)

    assert found is not None
