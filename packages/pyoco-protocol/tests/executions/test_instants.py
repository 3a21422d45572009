"""Times of executions as texts."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pyoco_protocol.executions.instants import Instant, instant, later, milliseconds_of

# The year 9999 ends here.
LAST = 253_402_300_799_999
MILLISECONDS = st.integers(0, LAST)
YEAR_SEC = 31_536_000
INSTANTS: TypeAdapter[str] = TypeAdapter(Instant)
NO_TIMES = [
    "",
    "soon",
    "2026-11-18T03:15:27Z",
    "2026-11-18T03:15:27.1Z",
    "2026-11-18T03:15:27.123456Z",
    "2026-11-18T03:15:27.123",
    "2026-11-18T03:15:27.123+00:00",
    "2026-11-18 03:15:27.123Z",
    "2026-11-18T03:15:27.123z",
    " 2026-11-18T03:15:27.123Z",
    "2026-11-18T03:15:27.123Z\n",
    "2026-1-18T03:15:27.1234Z",
    "٢٠٢٦-11-18T03:15:27.123Z",
]


def test_a_time_is_rfc_3339_in_utc_with_milliseconds() -> None:
    assert instant(0) == "1970-01-01T00:00:00.000Z"
    assert instant(1_794_971_727_123) == "2026-11-18T03:15:27.123Z"
    assert instant(LAST) == "9999-12-31T23:59:59.999Z"


@given(MILLISECONDS)
def test_a_text_names_its_time(milliseconds: int) -> None:
    text = instant(milliseconds)
    assert milliseconds_of(text) == milliseconds
    assert INSTANTS.validate_python(text) == text
    seconds, rest = divmod(milliseconds, 1000)
    assert datetime.fromisoformat(text).replace(microsecond=0) == datetime.fromtimestamp(
        seconds, UTC
    )
    assert text.endswith(f".{rest:03d}Z")


@given(MILLISECONDS, MILLISECONDS)
def test_texts_are_ordered_like_times(one: int, other: int) -> None:
    assert (instant(one) < instant(other)) is (one < other)
    assert max(instant(one), instant(other)) == instant(max(one, other))


@given(MILLISECONDS.filter(lambda ms: ms < LAST // 2), st.integers(0, YEAR_SEC * 1000))
def test_later_adds_whole_milliseconds_exactly(milliseconds: int, added: int) -> None:
    assert milliseconds_of(later(instant(milliseconds), added / 1000)) == milliseconds + added


@given(MILLISECONDS.filter(lambda ms: ms < LAST // 2), st.floats(0, YEAR_SEC))
def test_later_is_never_too_early_and_at_most_a_millisecond_late(
    milliseconds: int, seconds: float
) -> None:
    added = milliseconds_of(later(instant(milliseconds), seconds)) - milliseconds
    assert -0.001 < added - seconds * 1000 < 1.001


@given(MILLISECONDS.filter(lambda ms: ms < LAST // 2), st.floats(0, YEAR_SEC))
def test_later_is_never_earlier(milliseconds: int, seconds: float) -> None:
    assert later(instant(milliseconds), seconds) >= instant(milliseconds)


@pytest.mark.parametrize("text", [*NO_TIMES, "2026-13-18T03:15:27.123Z"])
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time|month"):
        milliseconds_of(text)


@pytest.mark.parametrize("text", NO_TIMES)
def test_another_text_is_refused_in_messages(text: str) -> None:
    with pytest.raises(ValidationError):
        INSTANTS.validate_python(text)
