"""Builders of jobs and snapshots: a test names the fields that matter, the rest has defaults.

The `*_json` builders return the wire format as dictionaries; the others return models.
"""

from typing import Any

from pyoco_protocol.ids import new_run_id
from pyoco_protocol.runs.job import RunJob
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

# An arbitrary time; a test about time sets its own.
NOW = 1_700_000_000.0


def job_json(**fields: Any) -> dict[str, Any]:
    """Return the JSON of a valid job with `fields` set; None removes a field."""
    defaults = {
        "run_id": new_run_id(),
        "flow_name": "hello",
        "tag": "default",
        "tags": ["default"],
        "params": {},
        "submitted_at": NOW,
    }
    return _without_none({**defaults, **fields})


def snapshot_json(**fields: Any) -> dict[str, Any]:
    """Return the JSON of a valid PENDING snapshot with `fields` set; None removes a field."""
    defaults = {
        "run_id": new_run_id(),
        "flow_name": "hello",
        "status": RunStatus.PENDING.value,
        "params": {},
        "tasks": {},
        "heartbeat_at": NOW,
        "updated_at": NOW,
        "tag": "default",
        "tags": ["default"],
        "submitted_at": NOW,
    }
    return _without_none({**defaults, **fields})


def job(**fields: Any) -> RunJob:
    """Return a valid job with `fields` set."""
    return RunJob.model_validate(job_json(**fields))


def snapshot(**fields: Any) -> RunSnapshot:
    """Return a valid PENDING snapshot with `fields` set."""
    return RunSnapshot.model_validate(snapshot_json(**fields))


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
