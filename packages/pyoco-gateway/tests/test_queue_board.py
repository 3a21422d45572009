"""Who could take what waits."""

from typing import Any

import pytest

from pyoco_gateway.queue_board import NO_WORKER, queue_views
from pyoco_protocol.jetstream.queue_state import QueueState
from pyoco_protocol.workers import WorkerRecord, WorkerState


def worker(*tags: str, **fields: Any) -> WorkerRecord:
    said = {"last_seen_at": 1, "last_heartbeat_at": 1, "state": WorkerState.IDLE, **fields}
    return WorkerRecord.model_validate({"worker_id": "w", "tags": tags, **said})


def test_a_worker_counts_for_each_of_its_tags_and_no_other() -> None:
    alive = [worker("a", "b", concurrency=4, slots_in_use=1), worker("b", concurrency=2)]
    views = queue_views([QueueState("a", 1, 1, 2.5), QueueState("c", 0, 0, None)], alive)
    assert [(each.tag, each.workers, each.free_slots) for each in views] == [
        ("a", 1, 3),
        ("b", 2, 5),
        ("c", 0, 0),
    ]
    assert views[0].oldest_age_sec == 2.5


@pytest.mark.parametrize(
    ("pending", "in_flight", "tags", "warned"),
    [
        (1, 0, ["other"], True),
        (0, 1, [], True),
        (0, 0, [], False),
        (1, 0, ["a"], False),
    ],
)
def test_work_that_nobody_can_take_is_warned_of(
    pending: int, in_flight: int, tags: list[str], warned: bool
) -> None:
    views = queue_views([QueueState("a", pending, in_flight, None)], [worker(*tags)])
    (view,) = [each for each in views if each.tag == "a"]
    assert view.warnings == ((NO_WORKER,) if warned else ())
    assert NO_WORKER == "has work, has no worker"


@pytest.mark.parametrize(
    ("said", "free"),
    [
        # Workers of an earlier server do not say.
        ({}, 1),
        ({"current_run_id": "r"}, 0),
        ({"concurrency": 3, "current_run_ids": ("r", "s")}, 1),
        ({"concurrency": 2, "slots_in_use": 5}, 0),
    ],
)
def test_free_slots_are_those_that_no_run_is_in(said: dict[str, Any], free: int) -> None:
    (view,) = queue_views([], [worker("a", **said)])
    assert view.free_slots == free
