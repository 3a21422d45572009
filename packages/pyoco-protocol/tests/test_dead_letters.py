import json

from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.dead_letters import DeadLetter, DeadLetterReason, dead_letter_id
from pyoco_testkit import strategies


def test_a_dead_letter_has_no_place_for_params() -> None:
    assert "params" not in DeadLetter.model_fields


def test_what_is_not_known_is_left_out_on_the_wire() -> None:
    letter = DeadLetter(timestamp=1.0, reason=DeadLetterReason.INVALID_JOB)
    assert json.loads(letter.to_bytes()) == {"timestamp": 1.0, "reason": "invalid_job", "tags": []}


def test_the_first_reasons_are_those_of_the_published_protocol() -> None:
    assert [reason.value for reason in DeadLetterReason][:3] == [
        "invalid_job",
        "flow_not_found",
        "execution_error",
    ]


causes = st.tuples(
    st.none() | strategies.run_ids,
    st.integers(min_value=1, max_value=2**53),
    st.none() | st.integers(min_value=1, max_value=100),
)


@given(causes, causes)
def test_a_dead_letter_is_repeated_only_for_the_same_job_and_attempt(
    one: tuple[str | None, int, int | None], other: tuple[str | None, int, int | None]
) -> None:
    assert (dead_letter_id(*one) == dead_letter_id(*other)) == (one == other)
    # It becomes a header, where a line break would begin another.
    assert dead_letter_id(*one).isprintable()
