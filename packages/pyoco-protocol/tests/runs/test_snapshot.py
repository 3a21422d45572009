import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.runs.snapshot import RunSnapshot
from pyoco_testkit import strategies
from pyoco_testkit.builders import snapshot, snapshot_json


@given(strategies.snapshots())
def test_a_snapshot_is_read_as_it_was_written(written: RunSnapshot) -> None:
    assert RunSnapshot.from_bytes(written.to_bytes()) == written


@given(st.binary(max_size=100))
def test_an_invalid_snapshot_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="RunSnapshot"):
        RunSnapshot.from_bytes(data)


def test_fields_without_a_value_are_not_stored() -> None:
    stored = json.loads(snapshot().to_bytes())
    assert None not in stored.values()
    assert "cancel_requested_at" not in stored
    assert stored["attempt"] == 0


@pytest.mark.parametrize("field", ["run_id", "flow_name", "status", "heartbeat_at", "updated_at"])
def test_the_fields_required_by_the_protocol_are_required(field: str) -> None:
    incomplete = snapshot_json(**{field: None})
    with pytest.raises(ValueError, match=field):
        RunSnapshot.from_bytes(json.dumps(incomplete).encode())


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="status"):
        RunSnapshot.from_bytes(json.dumps(snapshot_json(status="PAUSED")).encode())


def test_a_snapshot_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        snapshot().attempt = 2
