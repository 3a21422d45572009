"""Host names that the gateway answers to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.http.host_names import AllowedHosts, host_in


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8000", "localhost"),
        ("localhost.:8000", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("pyoco.example", "pyoco.example"),
        ("my_host:80", "my_host"),
    ],
)
def test_host_names_are_normalized(authority: str, host: str) -> None:
    assert host_in(authority) == host


@pytest.mark.parametrize(
    "authority",
    [
        "",
        " ",
        ":8000",
        "::1",
        "[::1",
        "[evil.example]",
        "[::ffff:1.2.3.4.5]",
        "localhost:",
        "localhost:http",
        "localhost:123456",
        "localhost@evil.example",
        "evil.example/localhost",
        "localhost, evil.example",
        "localhost evil.example",
        "localhost\x00.evil.example",
        "lócalhost",
        "-localhost",
        "x" * 300,
    ],
)
def test_an_invalid_authority_has_no_host(authority: str) -> None:
    assert host_in(authority) is None


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.255.0.3", "::1", "pyoco.example", "192.0.2.7"]
)
def test_local_and_allowed_names_are_accepted(host: str) -> None:
    hosts = AllowedHosts(["Pyoco.Example."])

    assert hosts.allow(host, "192.0.2.7")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
        # Other spellings of 127.0.0.1, which some resolvers accept and browsers normalize.
        "2130706433",
        "0x7f.1",
        "128.0.0.1",
        "0.0.0.0",  # noqa: S104 - a host name, not a bind address
        "::",
        "::2",
        "192.0.2.8",
        "sub.pyoco.example",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    assert not AllowedHosts(["pyoco.example"]).allow(host, "192.0.2.7")


@given(st.text(max_size=40))
def test_any_text_is_a_normalized_host_or_none(authority: str) -> None:
    host = host_in(authority)

    assert host is None or host_in(f"[{host}]" if ":" in host else host) == host
