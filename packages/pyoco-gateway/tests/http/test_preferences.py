import pytest

from pyoco_gateway.http.preferences import prefers_strict


@pytest.mark.parametrize(
    "headers",
    [
        [b"handling=strict"],
        [b'Handling = "strict"'],
        [b"respond-async, wait=10, handling=strict; foo"],
        [b"respond-async", b"handling=strict"],
        [b'note="a, handling=lenient", handling=strict'],
        [b"handling=strict, handling=lenient"],
        [b",, handling=strict ,"],
    ],
)
def test_strict_handling_is_preferred(headers: list[bytes]) -> None:
    assert prefers_strict([(b"accept", b"handling=lenient"), *((b"prefer", h) for h in headers)])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b""],
        [b"handling"],
        [b"handling=lenient"],
        [b"handling=lenient, handling=strict"],
        [b"handling=lenient", b"handling=strict"],
        [b'note="handling=strict"'],
        [b'note="handling=strict'],
        [b"note; handling=strict"],
        [b"xhandling=strict"],
    ],
)
def test_strict_handling_is_not_preferred(headers: list[bytes]) -> None:
    assert not prefers_strict([(b"expect", b"handling=strict"), *((b"prefer", h) for h in headers)])


def test_a_hostile_header_is_read_in_a_short_time() -> None:
    for part in (b'"', b'"\\', b"a=", b",", b'a="b",', b";"):
        assert not prefers_strict([(b"prefer", part * 20_000)])
