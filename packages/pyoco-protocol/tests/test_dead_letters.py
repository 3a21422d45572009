import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.dead_letters import UNREADABLE, DeadLetter, DeadLetterReason, dead_letter_id
from pyoco_testkit import strategies


def test_a_dead_letter_has_no_params() -> None:
    assert "params" not in DeadLetter.model_fields


def test_unset_fields_are_left_out() -> None:
    letter = DeadLetter(timestamp=1.0, reason=DeadLetterReason.INVALID_JOB)
    assert json.loads(letter.to_bytes()) == {"timestamp": 1.0, "reason": "invalid_job", "tags": []}


def test_the_first_reasons_are_those_of_the_published_protocol() -> None:
    assert [reason.value for reason in DeadLetterReason][:3] == [
        "invalid_job",
        "flow_not_found",
        "execution_error",
    ]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"reason": "x"}', b"\xff"])
def test_an_invalid_message_is_read_as_unreadable(data: bytes) -> None:
    letter = DeadLetter.from_bytes(data, stored_at=5.0)
    assert (letter.timestamp, letter.reason) == (5.0, UNREADABLE)
    assert UNREADABLE not in set(DeadLetterReason)


@given(st.text(min_size=1), st.none() | st.text())
def test_a_dead_letter_is_read_as_it_was_written(reason: str, error: str | None) -> None:
    letter = DeadLetter(timestamp=1.5, reason=reason, error=error)
    assert DeadLetter.from_bytes(letter.to_bytes(), stored_at=9.0) == letter


causes = st.tuples(
    st.none() | strategies.run_ids,
    st.integers(min_value=1, max_value=2**53),
    st.none() | st.integers(min_value=1, max_value=100),
)


@given(causes, causes)
def test_a_dead_letter_id_is_the_same_only_for_the_same_job_and_attempt(
    one: tuple[str | None, int, int | None], other: tuple[str | None, int, int | None]
) -> None:
    assert (dead_letter_id(*one) == dead_letter_id(*other)) == (one == other)
    # The id is a header value, in which a line break would start another header.
    assert dead_letter_id(*one).isprintable()
