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


run_ends = st.tuples(
    strategies.run_ids,
    st.integers(min_value=0, max_value=100),
    st.floats(min_value=0, max_value=2**40),
)
stream_seqs = st.integers(min_value=1, max_value=2**53)


def letter_of_run(run_id: str, attempt: int, end_time: float) -> DeadLetter:
    return DeadLetter(timestamp=end_time, reason="r", run_id=run_id, attempt=attempt)


@given(run_ends, run_ends, stream_seqs, stream_seqs)
def test_an_ended_run_has_one_dead_letter_id_for_each_attempt_and_end(
    one: tuple[str, int, float], other: tuple[str, int, float], first_job: int, second_job: int
) -> None:
    first = dead_letter_id(letter_of_run(*one), first_job)
    assert first == dead_letter_id(letter_of_run(*one), second_job)
    assert (first == dead_letter_id(letter_of_run(*other), first_job)) == (one == other)
    # The id is a header value, in which a line break would start another header.
    assert first.isprintable()


@given(st.none() | strategies.run_ids, stream_seqs, stream_seqs, st.floats(0, 2**40))
def test_jobs_without_a_readable_run_have_a_dead_letter_id_each(
    run_id: str | None, one: int, other: int, now: float
) -> None:
    # The time of such a letter is that of its delivery, so it differs at a redelivery.
    first = DeadLetter(timestamp=now, reason="r", run_id=run_id)
    again = DeadLetter(timestamp=now + 1, reason="r", run_id=run_id)
    assert (dead_letter_id(first, one) == dead_letter_id(again, other)) == (one == other)
    assert dead_letter_id(first, one).isprintable()
