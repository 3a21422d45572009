"""The idempotency key: required, printable, and given once."""

import pytest
from starlette.requests import Request

from pyoco_gateway.http.idempotency_header import required_idempotency_key
from pyoco_protocol.problems import IdempotencyKeyRequiredError, InvalidRequestError


def request_with(*values: bytes) -> Request:
    headers = [(b"x-idempotency-key", value) for value in values]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize("key", [b"k", b"a b", b"7d0c1a9e-3f5b", b"x" * 255, b"caf\xe9"])
def test_a_printable_key_is_read(key: bytes) -> None:
    assert required_idempotency_key(request_with(key)) == key.decode("latin-1")


@pytest.mark.parametrize("values", [[], [b""]])
def test_a_missing_key_is_required(values: list[bytes]) -> None:
    with pytest.raises(IdempotencyKeyRequiredError):
        required_idempotency_key(request_with(*values))


@pytest.mark.parametrize("values", [[b"x" * 256], [b"a\x00"], [b"a\tb"], [b"a", b"a"], [b"a", b""]])
def test_a_long_unprintable_or_repeated_key_is_invalid(values: list[bytes]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        required_idempotency_key(request_with(*values))
    assert [where for where, _ in caught.value.faults] == ["X-Idempotency-Key"]
