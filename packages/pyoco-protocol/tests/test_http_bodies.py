import pytest
from hypothesis import given
from pydantic import JsonValue, ValidationError

from pyoco_protocol.http_bodies import Health, RedriveRequest, RunAccepted, RunSubmission
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit import strategies

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


@given(strategies.flow_names, strategies.params, strategies.tags)
def test_a_submission_is_taken_as_it_is(
    flow_name: str, params: dict[str, JsonValue], tag: str
) -> None:
    body = RunSubmission.model_validate({"flow_name": flow_name, "params": params, "tag": tag})
    assert (body.flow_name, body.params, body.tag) == (flow_name, params, tag)


def test_a_flow_name_is_all_a_submission_needs() -> None:
    body = RunSubmission.model_validate({"flow_name": "hello"})
    assert (body.params, body.tag, body.tags) == ({}, None, None)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "flow_name"),
        ({"flow_name": "a", "parms": {}}, "parms"),
        ({"flow_name": "a", "status": "COMPLETED"}, "status"),
        ({"flow_name": "a", "run_id": RUN}, "run_id"),
        ({"flow_name": "a", "tag": "a.b"}, "tag"),
        ({"flow_name": "a", "tags": ["x"] * 33}, "tags"),
        ({"flow_name": "a", "params": []}, "params"),
        ({"flow_name": "a", "params": {"x": object()}}, "params"),
    ],
)
def test_a_submission_that_is_wrong_names_what(body: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RunSubmission.model_validate(body)
    assert named in {str(problem["loc"][0]) for problem in refused.value.errors()}


def test_a_redrive_must_say_which_letters() -> None:
    some: list[dict[str, object]] = [{"reason": "x"}, {"tag": ""}, {"run_id": RUN}, {"all": True}]
    for body in some:
        request = RedriveRequest.model_validate(body)
        assert (request.max, request.rate_per_sec, request.dry_run) == (100, 50.0, False)
    none: list[dict[str, object]] = [{}, {"all": False}, {"tag": None}, {"dry_run": True}]
    for body in none:
        with pytest.raises(ValidationError, match="reason, tag or run_id"):
            RedriveRequest.model_validate(body)


def test_the_numbers_of_a_redrive_are_numbers_as_json_has_them() -> None:
    read = RedriveRequest.model_validate_json(b'{"all": true, "max": 5.0, "rate_per_sec": 1}')
    assert (read.max, read.rate_per_sec) == (5, 1.0)
    for number in (b"true", b'"5"', b"5.5", b"0", b"1001", b"1e400"):
        with pytest.raises(ValidationError):
            RedriveRequest.model_validate_json(b'{"all": true, "max": %s}' % number)


def test_answers_skip_what_a_newer_server_adds() -> None:
    answer = {"run_id": RUN, "status": "PENDING", "queue_position": 4}
    accepted = RunAccepted.model_validate(answer)
    assert (accepted.status, accepted.warnings) == (RunStatus.PENDING, ())
    assert Health.model_validate({"status": "ok", "version": "9.9", "uptime": 1}).version == "9.9"
