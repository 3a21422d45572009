from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_client.error_mapping import api_error
from pyoco_client.errors import (
    GatewayUnreachableError,
    PyocoError,
    UnexpectedAnswerError,
)
from pyoco_client.retry_rules import (
    Backoff,
    Repeat,
    may_repeat,
    pause_before_repeat,
    retry_after_sec,
)

REFUSED = GatewayUnreachableError("x", "refused", may_have_arrived=False)
RESET = GatewayUnreachableError("x", "reset", may_have_arrived=True)
NO_SUCH_HOST = GatewayUnreachableError("x", "dns", may_have_arrived=False, is_lasting=True)
BUSY = api_error(429, {}, retry_after_sec=3.0)
AWAY = api_error(503, {"err_id": "ERR-PYOCO-0003"})
UNCONFIRMED = api_error(503, {"err_id": "ERR-PYOCO-0107"})
PROXY = UnexpectedAnswerError("x", "html", 502)


@pytest.mark.parametrize(
    ("error", "always", "if_unsent"),
    [
        (REFUSED, True, True),
        (RESET, True, False),
        (NO_SUCH_HOST, False, False),
        (BUSY, True, False),
        (AWAY, True, False),
        (UNCONFIRMED, True, False),
        (PROXY, True, False),
        (api_error(500, {}), False, False),
        (api_error(404, {}), False, False),
        (api_error(409, {}), False, False),
        (api_error(422, {}), False, False),
    ],
)
def test_which_requests_may_be_repeated(error: PyocoError, always: bool, if_unsent: bool) -> None:
    assert may_repeat(error, Repeat.ALWAYS) is always
    assert may_repeat(error, Repeat.IF_UNSENT) is if_unsent


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1))
def test_pauses_grow_to_a_limit_and_are_never_zero(failures: int, jitter: float) -> None:
    backoff = Backoff(first_sec=0.1, longest_sec=2.0)
    pause = backoff.pause(failures, jitter)
    assert 0.05 <= pause <= 2.0
    assert backoff.pause(failures + 1, jitter) >= pause
    assert backoff.pause(failures, 0.0) < backoff.pause(failures, 1.0)


@given(left=st.floats(0, 100), failures=st.integers(1, 50), jitter=st.floats(0, 1))
def test_a_pause_is_within_the_deadline_and_not_shorter_than_retry_after(
    left: float, failures: int, jitter: float
) -> None:
    pause = pause_before_repeat(
        BUSY, Repeat.ALWAYS, failures=failures, left_sec=left, jitter=jitter, backoff=Backoff()
    )
    if pause is None:
        assert left <= 3.0
    else:
        assert 3.0 <= pause < left


NOW = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Wed, 18 Nov 2026 12:00:30 GMT", 30.0),
        ("Wed, 18 Nov 2026 11:00:00 GMT", 0.0),
        ("999999999", 3600.0),
        ("soon", None),
        ("nan", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_sec({"retry-after": text}, NOW) == seconds
    assert retry_after_sec({}, NOW) is None
