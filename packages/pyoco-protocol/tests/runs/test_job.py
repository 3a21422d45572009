import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.problems import InvalidJobError
from pyoco_protocol.runs.job import MAX_TAGS, RunJob
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit import strategies
from pyoco_testkit.builders import job_json, snapshot

SECRET = "hunter2"


def refusal_of(data: bytes) -> InvalidJobError:
    with pytest.raises(InvalidJobError) as refused:
        RunJob.from_bytes(data)
    return refused.value


@given(strategies.jobs)
def test_a_job_arrives_as_it_was_sent(job: RunJob) -> None:
    assert RunJob.from_bytes(job.to_bytes()) == job


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    refusal_of(data)


@given(
    field=st.sampled_from(sorted(job_json())),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=4,
    ),
)
def test_a_field_of_any_type_is_accepted_or_refused(field: str, value: object) -> None:
    data = json.dumps({**job_json(), field: value}).encode()
    try:
        refusal = str(RunJob.from_bytes(data).model_fields_set)
    except InvalidJobError as error:
        refusal = error.detail
    # The field was checked, and no other error was raised.
    assert field in refusal


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"submitted_at": [1]}, "submitted_at"),
        ({"tags": 7}, "tags"),
        ({"tags": [7]}, "tags.0"),
        ({"tags": ["x"] * (MAX_TAGS + 1)}, "tags"),
        ({"run_id": "7D0C1A9E-3F5B-4F0E-9A51-0C2F7A11D3B4"}, "run_id"),
        ({"run_id": 5}, "run_id"),
        ({"flow_name": ""}, "flow_name"),
        ({"flow_name": "a\nb"}, "flow_name"),
        ({"tag": "a.b"}, "tag"),
        ({"params": []}, "params"),
        ({"submitted_at": "NaN"}, "submitted_at"),
        ({"still_at_revision": "soon"}, "still_at_revision"),
    ],
)
def test_the_refusal_names_the_field_that_is_wrong(changed: dict[str, Any], named: str) -> None:
    assert named in refusal_of(json.dumps(job_json(**changed)).encode()).detail


@pytest.mark.parametrize("missing", ["run_id", "flow_name", "tag", "submitted_at"])
def test_the_refusal_names_the_field_that_is_missing(missing: str) -> None:
    assert missing in refusal_of(json.dumps(job_json(**{missing: None})).encode()).detail


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b"not json",
        b'{"run_id": "\\ud800"}',
        b"[" * 100_000,
        b'{"params":' * 50_000,
    ],
)
def test_anything_but_a_json_object_is_refused(data: bytes) -> None:
    refusal_of(data)


def test_a_refusal_does_not_repeat_the_content_of_the_job() -> None:
    shown = refusal_of(json.dumps(job_json(submitted_at=SECRET, params=[SECRET])).encode())
    assert SECRET not in f"{shown!r} {shown} {shown.detail} {shown.extra}"


def test_fields_without_a_value_are_not_sent() -> None:
    sent = json.loads(RunJob.model_validate(job_json()).to_bytes())
    assert set(sent) == {"run_id", "flow_name", "tag", "tags", "params", "submitted_at"}


@given(
    strategies.snapshots(
        tag=strategies.tags,
        tags=st.lists(strategies.tags, max_size=3),
        flow_name=strategies.flow_names,
    )
)
def test_a_job_carries_the_record_of_its_run(run: RunSnapshot) -> None:
    job = RunJob.of(run, default_tag="default").with_record(run, 17)
    arrived = RunJob.from_bytes(job.to_bytes())
    assert (arrived.recorded_run(), arrived.record_revision) == (run, 17)


def test_a_job_of_an_earlier_server_carries_no_record() -> None:
    assert RunJob.from_bytes(json.dumps(job_json()).encode()).recorded_run() is None


@pytest.mark.parametrize("record", [{}, {"status": 5}, {"status": "PAUSED"}, {"updated_at": []}])
def test_an_unreadable_record_counts_as_none(record: dict[str, Any]) -> None:
    sent = json.dumps(job_json(record=record, record_revision=1)).encode()
    assert RunJob.from_bytes(sent).recorded_run() is None


@given(strategies.snapshots(tag=st.just("gpu")))
def test_the_job_of_a_run_is_always_the_same(run: RunSnapshot) -> None:
    job = RunJob.of(run, default_tag="default")
    assert (job.run_id, job.flow_name, job.tag) == (run.run_id, run.flow_name, "gpu")
    assert job.params == run.params
    assert job == RunJob.of(run, default_tag="other")


def test_every_job_of_a_run_names_its_tenant_and_key() -> None:
    run = snapshot(tenant_id="acme", api_key_id="k1")
    job = RunJob.of(run, default_tag="default")
    # On the job itself: a worker of another kind does not read `record`.
    sent = json.loads(job.to_bytes())
    assert (sent.get("tenant_id"), sent.get("api_key_id")) == ("acme", "k1")
    recorded = RunJob.from_bytes(job.with_record(run, 3).to_bytes()).recorded_run()
    assert recorded is not None
    assert (recorded.tenant_id, recorded.api_key_id) == ("acme", "k1")
    # Without authentication there is neither.
    plain = RunJob.of(snapshot(), default_tag="default").to_bytes()
    assert b"tenant" not in plain
    assert b"api_key" not in plain


def test_a_run_without_a_tag_is_queued_under_the_default() -> None:
    assert RunJob.of(snapshot(tag=None), default_tag="default").tag == "default"


def test_a_workflow_text_must_match_its_hash() -> None:
    text = "flow: {graph: 流れ}"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    job = RunJob.model_validate(job_json())
    job.verify_workflow()
    RunJob.model_validate(job_json(workflow_yaml=text)).verify_workflow()
    same = RunJob.from_bytes(job.with_workflow(text, sha256).to_bytes())
    assert (same.workflow_yaml, same.workflow_yaml_sha256) == (text, sha256)
    same.verify_workflow()
    with pytest.raises(InvalidJobError, match="workflow_yaml"):
        job.with_workflow(text + " ", sha256).verify_workflow()
