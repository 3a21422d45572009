from typing import Any

import pytest

from execution_answers import AT, node, rejection, view
from pyoco_client.error_mapping import api_error
from pyoco_client.execution_errors import CommandRejectedError
from pyoco_client.execution_models import Execution
from pyoco_client.task_attempts import ending_in, ending_of, message_of, new_worker_id


def state(status: str = "RUNNING", *, execution: dict[str, Any], **fields: Any) -> Execution:
    of_node = node("fetch", status, **{"attempt": 2, "workerId": "w", **fields})
    return Execution.model_validate(view(**{"nodes": [of_node], **execution}))


@pytest.mark.parametrize(
    ("status", "fields", "execution", "reason"),
    [
        ("RUNNING", {}, {}, None),
        ("WAITING", {}, {}, None),
        ("RUNNING", {}, {"status": "CANCELED"}, "EXECUTION_TERMINAL"),
        ("RUNNING", {}, {"cancelRequestedAt": AT}, "EXECUTION_CANCEL_REQUESTED"),
        ("RUNNING", {}, {"failRequestedAt": AT}, "EXECUTION_FAILING"),
        ("CANCELED", {}, {}, "NODE_TERMINAL"),
        ("RUNNING", {}, {"nodes": []}, "NODE_TERMINAL"),
        ("RUNNING", {"interruptRequestedAt": AT}, {}, "NODE_CANCEL_REQUESTED"),
        ("RUNNING", {"attempt": 3}, {}, "STALE_ATTEMPT"),
        ("RUNNING", {"workerId": "other"}, {}, "STALE_ATTEMPT"),
        ("RUNNING", {"retryAt": AT}, {}, "STALE_ATTEMPT"),
        ("READY", {}, {}, "STALE_ATTEMPT"),
    ],
)
def test_an_attempt_counts_only_while_its_node_runs_it(
    status: str, fields: dict[str, Any], execution: dict[str, Any], reason: str | None
) -> None:
    found = state(status, execution=execution, **fields)
    assert ending_of(found, "fetch", attempt=2, worker_id="w") == reason


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("STALE_ATTEMPT", True),
        ("EXECUTION_CANCEL_REQUESTED", True),
        ("NODE_CANCEL_REQUESTED", True),
        # The attempt may still succeed.
        ("EXECUTION_TOO_LONG", False),
        ("NODE_NOT_RUNNING", False),
    ],
)
def test_only_some_rejections_end_an_attempt(reason: str, ends: bool) -> None:
    error = api_error(409, rejection(reason))
    assert isinstance(error, CommandRejectedError)
    assert ending_in(error) == (reason if ends else None)


def test_no_two_workers_have_the_same_id() -> None:
    assert new_worker_id() != new_worker_id()
    assert len(new_worker_id()) <= 128


def test_the_message_of_a_failure_has_the_notes_of_its_exception() -> None:
    error = ValueError("no rows")
    assert message_of(error) == "no rows"
    error.add_note("in table a")
    assert message_of(error) == "no rows; in table a"
