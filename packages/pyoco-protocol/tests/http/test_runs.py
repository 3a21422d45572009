import pytest
from hypothesis import given
from pydantic import JsonValue, ValidationError

from pyoco_protocol.http.runs import RunAccepted, RunSubmission, StrictRunSubmission
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_testkit import strategies

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"


@given(strategies.flow_names, strategies.params, strategies.tags)
def test_a_submission_keeps_its_values(
    flow_name: str, params: dict[str, JsonValue], tag: str
) -> None:
    body = RunSubmission.model_validate({"flow_name": flow_name, "params": params, "tag": tag})
    assert (body.flow_name, body.params, body.tag) == (flow_name, params, tag)


def test_a_submission_needs_only_a_flow_name() -> None:
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
def test_an_invalid_submission_names_the_wrong_field(body: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        StrictRunSubmission.model_validate(body)
    assert named in {str(problem["loc"][0]) for problem in refused.value.errors()}


def test_unknown_fields_of_a_submission_are_ignored_without_strict_handling() -> None:
    body = RunSubmission.model_validate({"flow_name": "a", "parms": {}, "status": "COMPLETED"})
    assert body == RunSubmission(flow_name="a")


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    answer = {"run_id": RUN, "status": "PENDING", "queue_position": 4}
    accepted = RunAccepted.model_validate(answer)
    assert (accepted.status, accepted.warnings) == (RunStatus.PENDING, ())
