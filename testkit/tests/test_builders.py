"""Builders and strategies return values that the protocol accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pyoco_protocol.ids import FlowName, Tag
from pyoco_protocol.problems import InvalidJobError
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit import builders, strategies


def test_a_builder_sets_the_fields_it_is_given() -> None:
    assert builders.snapshot(status="RUNNING", attempt=2).attempt == 2
    assert builders.snapshot().status is RunStatus.PENDING
    assert builders.job(tag="gpu").tag == "gpu"


def test_each_built_job_has_its_own_run_id() -> None:
    assert builders.job().run_id != builders.job().run_id


def test_none_removes_a_field() -> None:
    broken = builders.job_json(flow_name=None)
    assert "flow_name" not in broken
    with pytest.raises(InvalidJobError):
        RunJob.from_bytes(str(broken).encode())


@given(strategies.jobs)
def test_any_job_is_unchanged_by_encoding_and_decoding(job: RunJob) -> None:
    assert RunJob.from_bytes(job.to_bytes()) == job


@given(strategies.snapshots(status=st.just("FAILED")))
def test_any_snapshot_is_unchanged_by_encoding_and_decoding(snapshot: RunSnapshot) -> None:
    assert snapshot.status is RunStatus.FAILED
    assert RunSnapshot.from_bytes(snapshot.to_bytes()) == snapshot


@given(strategies.tags, strategies.flow_names)
def test_generated_tags_and_flow_names_are_valid(tag: str, flow_name: str) -> None:
    TypeAdapter(Tag).validate_python(tag)
    TypeAdapter(FlowName).validate_python(flow_name)
