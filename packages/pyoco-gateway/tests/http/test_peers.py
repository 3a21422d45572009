"""Whom limits take for one caller."""

import pytest

from pyoco_gateway.http.peers import peer_of


@pytest.mark.parametrize(
    ("host", "peer"),
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
def test_an_address_counts_as_one_and_so_does_a_network_that_one_host_has(
    host: str, peer: str
) -> None:
    assert peer_of({"client": (host, 4711)}) == peer


def test_without_an_address_all_are_one() -> None:
    assert peer_of({"client": None}) == peer_of({}) == ""
