"""Addresses that limits count by."""

import pytest

from pyoco_gateway.http.client_address import client_address_of


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no:address", "no:address"),
    ],
)
def test_limits_count_by_ipv4_address_and_by_ipv6_network(host: str, address: str) -> None:
    assert client_address_of({"client": (host, 4711)}) == address


def test_requests_without_an_address_count_as_one_client() -> None:
    assert client_address_of({"client": None}) == client_address_of({}) == ""
