"""Durations and times in command-line options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_gateway.commands.admin.times import moment_in, seconds_in, shown_moment
from pyoco_testkit.builders import NOW


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("15m", 900), ("24h", 86_400), ("30d", 2_592_000), ("2w", 1_209_600)],
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "24", "h", "-1h", "1.5h", "24 h", "1y", "٣h", "1h\n", "9999w"]
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        seconds_in(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("30d", NOW + 2_592_000),
        ("2099-01-31T00:00:00Z", 4_073_500_800),
        ("2099-01-31T09:00:00+09:00", 4_073_500_800),
    ],
)
def test_a_time_is_relative_or_absolute(text: str, at: float) -> None:
    assert moment_in(text, now=NOW) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0s",
        "tomorrow",
        "1990-01-01T00:00:00Z",
        # Without a time zone.
        "2099-01-31T00:00:00",
        "2099-01-31",
        "9999-12-31T23:59:59Z",
        "99999999999d",
        "4073500800",
    ],
)
def test_a_past_or_ambiguous_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        moment_in(text, now=NOW)


@given(st.text() | st.from_regex(r"\A[0-9]{1,12}[smhdw]\Z"))
def test_any_text_is_a_future_time_or_refused(text: str) -> None:
    try:
        at = moment_in(text, now=NOW)
    except ValueError:
        return
    assert at > NOW
    assert shown_moment(at).endswith("Z")
