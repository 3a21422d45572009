"""Waiting jobs and workers by tag, and slow brokers."""

from typing import Any

import anyio
import httpx
import pytest

from pyoco_gateway.fleet.queue_report import NO_WORKER, queue_views
from pyoco_protocol.jetstream.queue_state import QueueState
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.nats_server import NatsServer


def worker(*tags: str, **fields: Any) -> WorkerRecord:
    values = {"last_seen_at": 1, "last_heartbeat_at": 1, "state": WorkerState.IDLE, **fields}
    return WorkerRecord.model_validate({"worker_id": "w", "tags": tags, **values})


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
    ("pending", "in_flight", "tags", "has_warning"),
    [
        (1, 0, ["other"], True),
        (0, 1, [], True),
        (0, 0, [], False),
        (1, 0, ["a"], False),
    ],
)
def test_work_without_a_worker_gets_a_warning(
    pending: int, in_flight: int, tags: list[str], has_warning: bool
) -> None:
    views = queue_views([QueueState("a", pending, in_flight, None)], [worker(*tags)])
    (view,) = [each for each in views if each.tag == "a"]
    assert view.warnings == ((NO_WORKER,) if has_warning else ())
    assert NO_WORKER == "has work, has no worker"


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        # Workers of an earlier server do not report their slots.
        ({}, 1),
        ({"current_run_id": "r"}, 0),
        ({"concurrency": 3, "current_run_ids": ("r", "s")}, 1),
        ({"concurrency": 2, "slots_in_use": 5}, 0),
    ],
)
def test_free_slots_are_those_without_a_run(fields: dict[str, Any], free: int) -> None:
    (view,) = queue_views([], [worker("a", **fields)])
    assert view.free_slots == free


async def test_a_broker_that_does_not_answer_delays_neither_metrics_nor_concurrent_callers(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.pause()
        answers: list[httpx.Response] = []

        async def get(path: str) -> None:
            answers.append(await gateway.get(path))

        # One after the other, they would take longer than the client's timeout.
        async with anyio.create_task_group() as tasks:
            for path in ("/metrics", *["/queues"] * 20):
                tasks.start_soon(get, path)
        nats_server.resume()
    statuses = sorted(each.status_code for each in answers)
    assert statuses == [200] + [503] * 20
    (page,) = [each.text for each in answers if each.status_code == 200]
    assert "pyoco_queue_pending" not in page
    assert "pyoco_http_request_duration_seconds" in page
