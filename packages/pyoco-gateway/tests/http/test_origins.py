"""Detection of requests from pages of other origins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.http.origins import foreign_origin
from pyoco_protocol.settings.origins import origin_in

HOST = "127.0.0.1:8000"
TRUSTED = frozenset(
    filter(None, map(origin_in, ["https://dashboard.example", "http://[2001:DB8::7]:3000"]))
)


def found(origin: str | None, fetch_site: str | None, host: str | None = HOST) -> str | None:
    return foreign_origin(origin=origin, fetch_site=fetch_site, host=host, trusted=TRUSTED)


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        # Not a browser.
        (None, None),
        # A page of the gateway, in old and new browsers.
        ("http://127.0.0.1:8000", None),
        ("http://127.0.0.1:8000", "same-origin"),
        ("http://127.0.0.1:8000", "none"),
        (None, "same-origin"),
        (None, "none"),
        # Behind a proxy that terminates TLS or changes the Host header; a page cannot set
        # Sec-Fetch-Site.
        ("https://pyoco.example", "same-origin"),
        # Origins that the operator trusts.
        ("https://dashboard.example", None),
        ("https://dashboard.example", "cross-site"),
        ("https://dashboard.example:443", "same-site"),
        ("HTTPS://Dashboard.Example", "cross-site"),
        ("http://[2001:db8:0::7]:3000", "cross-site"),
    ],
)
def test_programs_own_pages_and_trusted_pages_are_not_foreign(
    origin: str | None, fetch_site: str | None
) -> None:
    assert found(origin, fetch_site) is None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://pyoco.example", "pyoco.example"),
        ("http://pyoco.example", "pyoco.example:80"),
        ("http://pyoco.example:80", "pyoco.example"),
        ("http://pyoco.example", "PYOCO.example"),
        ("http://pyoco.example.", "pyoco.example."),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://[::1]", "[0:0:0:0:0:0:0:1]:80"),
    ],
)
def test_an_own_page_is_known_by_the_host_header_without_sec_fetch_site(
    origin: str, host: str
) -> None:
    assert found(origin, None, host) is None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        # The gateway serves plain HTTP, so this page may come from another server.
        ("https://pyoco.example", "pyoco.example"),
        ("https://pyoco.example", "pyoco.example:443"),
        ("http://pyoco.example:8000", "pyoco.example"),
        ("http://pyoco.example", "pyoco.example:8000"),
        ("http://pyoco.example.", "pyoco.example"),
        ("http://none", None),
        ("http://pyoco.example", ""),
        ("null", "null"),
        ("http://", ""),
    ],
)
def test_scheme_host_and_port_must_all_match_the_host_header(origin: str, host: str | None) -> None:
    assert found(origin, None, host) == origin


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        ("https://evil.example", None),
        ("https://evil.example", "cross-site"),
        # Another service on the same machine is another origin.
        ("http://127.0.0.1:3000", None),
        ("http://127.0.0.1:3000", "same-site"),
        ("http://127.0.0.1", "same-site"),
        ("http://localhost:8000", None),
        ("http://localhost:8000", "cross-site"),
        # A browser that calls its own page same-site or cross-site is believed.
        ("http://127.0.0.1:8000", "cross-site"),
        ("null", None),
        ("null", "cross-site"),
        ("null", "none"),
        ("", None),
        ("file://", None),
        ("127.0.0.1:8000", None),
        (None, "cross-site"),
        (None, "same-site"),
        (None, "something new"),
        (None, ""),
        # A browser extension sends `none`.
        ("chrome-extension://abcdefghijklmnop", "none"),
        ("https://evil.example", "none"),
        # Almost a trusted origin.
        ("http://dashboard.example", None),
        ("http://dashboard.example", "cross-site"),
        ("https://dashboard.example:8443", "cross-site"),
        ("https://dashboard.example:80", "cross-site"),
        ("https://dashboard.example.", "cross-site"),
        ("https://dashboard.example/", "cross-site"),
        ("https://dashboard.example.evil.example", None),
        ("https://evil.example#dashboard.example", None),
        ("https://dashboard.example@evil.example", None),
        ("https://dashboard.example https://evil.example", None),
        ("http://[2001:db8::7]", "cross-site"),
        ("http://[2001:db8::8]:3000", "cross-site"),
    ],
)
def test_pages_of_other_origins_are_foreign(origin: str | None, fetch_site: str | None) -> None:
    assert found(origin, fetch_site) is not None


@given(
    scheme=st.sampled_from(["http", "https"]),
    port=st.integers(1, 65_535),
    fetch_site=st.sampled_from(["same-site", "cross-site", "none", None]),
)
def test_only_the_port_of_the_gateway_itself_is_its_own(
    scheme: str, port: int, fetch_site: str | None
) -> None:
    is_own = (scheme, port) == ("http", 8000) and fetch_site in ("none", None)

    assert (found(f"{scheme}://127.0.0.1:{port}", fetch_site) is None) == is_own
