"""The API key in the headers of a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.access.key_header import UNREADABLE, key_in
from pyoco_gateway.access.keys import PresentedKey

KEY = b"pyoco_abcdefghijkl_" + b"S" * 43
OTHER = b"pyoco_abcdefghijkl_" + b"T" * 43


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x-api-key", KEY)],
        [(b"x-api-key", b" \t" + KEY + b" ")],
        [(b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"bEARER   " + KEY)],
        [(b"host", b"x"), (b"x-api-key", KEY), (b"authorization", b"Bearer " + KEY)],
        # Credentials of a proxy, in another scheme.
        [(b"authorization", b"Basic dTpw"), (b"x-api-key", KEY)],
        [(b"x-api-key", b""), (b"authorization", b"Bearer " + KEY)],
    ],
)
def test_a_key_is_found_in_either_header(headers: list[tuple[bytes, bytes]]) -> None:
    assert key_in(headers, b"x-api-key") == KEY.decode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-api-key", b"")],
        [(b"x-api-key", b"  ")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Basic dTpw")],
        [(b"authorization", KEY)],
        [(b"x-other-key", KEY)],
    ],
)
def test_empty_and_other_headers_are_no_key(headers: list[tuple[bytes, bytes]]) -> None:
    assert key_in(headers, b"x-api-key") is None


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x-api-key", KEY), (b"authorization", b"Bearer " + OTHER)],
        [(b"x-api-key", KEY), (b"x-api-key", OTHER)],
        [(b"x-api-key", KEY), (b"x-api-key", KEY)],
        [(b"x-api-key", b""), (b"x-api-key", KEY)],
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"Basic dTpw")],
        [(b"authorization", b"Basic dTpw"), (b"authorization", b"Bearer " + KEY)],
        [(b"x-api-key", b"\xff" + KEY)],
        [(b"x-api-key", KEY * 100)],
    ],
)
def test_several_keys_and_impossible_values_are_unreadable(
    headers: list[tuple[bytes, bytes]],
) -> None:
    assert key_in(headers, b"x-api-key") == UNREADABLE
    assert PresentedKey.parse(UNREADABLE) is None


def test_the_configured_header_may_be_authorization() -> None:
    for value in (KEY, b"Bearer " + KEY):
        assert key_in([(b"authorization", value)], b"authorization") == KEY.decode()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"x-api-key", b"authorization", b"cookie"]),
            st.one_of(st.binary(max_size=300), st.binary(max_size=80).map(b"Bearer ".__add__)),
        )
    )
)
def test_any_headers_give_a_text_or_none(headers: list[tuple[bytes, bytes]]) -> None:
    key = key_in(headers, b"x-api-key")

    assert key is None or (key.isascii() and len(key) <= 256)
