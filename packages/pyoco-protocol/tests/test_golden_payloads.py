"""Payloads of released versions are read without loss."""

import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_protocol import __version__
from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.output import OutputChunk
from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_protocol.wire import WireModel
from pyoco_protocol.workers import WorkerRecord, WorkerState

GOLDEN = Path(__file__).parent / "golden"
MODELS: dict[str, type[RunJob | RunSnapshot | WorkerRecord | DeadLetter | OutputChunk]] = {
    model.__name__: model for model in (RunJob, RunSnapshot, WorkerRecord, DeadLetter, OutputChunk)
}
VERSIONS = sorted(path.name for path in GOLDEN.iterdir())

# As a worker of an earlier server writes it: a whole snapshot with the fields of the published
# protocol.
OF_AN_EARLIER_WORKER = {
    "run_id": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "flow_name": "main",
    "status": "RUNNING",
    "params": {},
    "tasks": {"a": "RUNNING"},
    "heartbeat_at": 1763366403.5,
    "updated_at": 1763366404.0,
}


def test_there_are_golden_payloads_of_each_model() -> None:
    assert __version__ in VERSIONS
    for version in VERSIONS:
        assert {path.stem for path in (GOLDEN / version).iterdir()} == set(MODELS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MODELS)
def test_a_payload_of_a_released_version_is_read_and_written_again(version: str, name: str) -> None:
    data = (GOLDEN / version / f"{name}.json").read_bytes()
    golden: dict[str, Any] = json.loads(data)
    again: dict[str, Any] = json.loads(MODELS[name].model_validate_json(data).to_bytes())
    # A later version may add fields, but must not drop or change any.
    assert {field: again.get(field) for field in golden} == golden


@pytest.mark.parametrize("name", MODELS)
def test_the_golden_payloads_of_this_version_have_every_field(name: str) -> None:
    golden = json.loads((GOLDEN / __version__ / f"{name}.json").read_bytes())
    assert golden.keys() == MODELS[name].model_fields.keys()
    assert json.loads(MODELS[name].model_validate(golden).to_bytes()) == golden


@pytest.mark.parametrize("name", MODELS)
def test_unknown_fields_of_a_newer_peer_are_ignored(name: str) -> None:
    golden = json.loads((GOLDEN / "0.1.0" / f"{name}.json").read_bytes())
    newer = {**golden, "from_the_future": {"x": [1]}, "_private": None}
    model: type[WireModel] = MODELS[name]
    assert model.model_validate(newer) == model.model_validate(golden)


def test_a_snapshot_with_only_the_published_fields_is_read() -> None:
    snapshot = RunSnapshot.from_bytes(json.dumps(OF_AN_EARLIER_WORKER).encode())
    assert (snapshot.status, snapshot.tasks) == (RunStatus.RUNNING, {"a": TaskStatus.RUNNING})
    assert (snapshot.attempt, snapshot.worker_id, snapshot.instance_id) == (0, None, None)
    assert (snapshot.job_seq, snapshot.tag, snapshot.tags) == (None, None, ())


@pytest.mark.parametrize(
    "more",
    [
        {"worker_alive": True, "logs": [{"seq": 1}], "metadata": {"a": None}},
        {"error": None, "cancel_requested_at": None, "cancel_requested_by": None},
        {"start_time": 1763366401, "end_time": None, "task_records_truncated": True},
        {"task_records": {"a": {"state": "SUCCEEDED", "output": 1, "artifacts": []}}},
        {"task_records": {"a": {"error": None, "traceback": None, "inputs": None}}},
        {"tag": "cpu", "tags": ["cpu"], "worker_id": "host-1"},
    ],
)
def test_a_snapshot_with_fields_of_an_earlier_worker_is_read(more: dict[str, Any]) -> None:
    data = json.dumps({**OF_AN_EARLIER_WORKER, **more}).encode()
    snapshot = RunSnapshot.from_bytes(data)
    assert snapshot.status is RunStatus.RUNNING
    # It can be read again after being written.
    assert RunSnapshot.from_bytes(snapshot.to_bytes()) == snapshot


def test_a_registry_record_of_an_earlier_worker_is_read() -> None:
    record = WorkerRecord.model_validate(
        {
            "worker_id": "host-1",
            "state": "IDLE",
            "last_seen_at": 1763366404,
            "last_heartbeat_at": 1763366404,
            "current_run_id": None,
            "stop_reason": None,
        }
    )
    assert (record.state, record.hidden, record.instance_id) == (WorkerState.IDLE, False, "")
