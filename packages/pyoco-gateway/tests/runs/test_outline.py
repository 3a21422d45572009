"""Which records show that a worker has taken the run."""

from typing import Any

import pytest

from pyoco_gateway.runs.outline import RunOutline, has_owner
from pyoco_testkit.builders import snapshot, snapshot_json


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"worker_id": "w1"}, True),
        ({"instance_id": "life"}, True),
        # Written by a worker of an earlier server.
        ({"start_time": 1.0}, True),
        # Given back by one of our workers.
        ({"start_time": 1.0, "attempt": 1}, False),
    ],
)
def test_a_started_run_has_an_owner_unless_it_was_given_back(
    fields: dict[str, Any], expected: bool
) -> None:
    assert has_owner(snapshot(**fields)) is expected
    assert has_owner(RunOutline.model_validate(snapshot_json(**fields))) is expected
