"""Warnings about valid graphs."""

from typing import Any

import pytest

from pyoco_gateway.fleet.worker_directory import WorkerDirectory
from pyoco_gateway.graphs.graph_warnings import GraphWarnings
from pyoco_protocol.graphs.validation import validate_graph
from pyoco_protocol.jetstream.bucket_watch import Entry
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.workers import WorkerRecord, WorkerState
from pyoco_testkit.builders import NOW
from pyoco_testkit.graph_documents import JsonObject, edges_of, forked, line


@pytest.fixture
def workers(broker: Broker) -> WorkerDirectory:
    """Give a registry with one worker, which carries the tag `cpu`."""
    directory = WorkerDirectory(broker, 20.0, wall_clock=lambda: NOW)
    directory.on_reset()
    directory.on_resumed()
    record = WorkerRecord.model_validate(
        {
            "worker_id": "w1",
            "state": WorkerState.IDLE,
            "last_seen_at": NOW,
            "last_heartbeat_at": NOW,
            "tags": ("cpu",),
        }
    )
    directory.on_entry(Entry("w1", 1, record.to_bytes(), NOW, pending=0))
    directory.on_caught_up()
    return directory


def bound(node_id: str, **run: Any) -> JsonObject:
    return {"id": node_id, "type": "Task", "run": {"flow": "f", **run}}


def warned(
    workers: WorkerDirectory, document: JsonObject, *, default_tag: str = "cpu"
) -> list[tuple[str, str]]:
    """Return code and place of each warning."""
    found = GraphWarnings(workers, default_tag)(validate_graph(document))
    return [(each.code, each.where) for each in found]


async def test_a_tag_that_no_live_worker_carries_is_named_once(workers: WorkerDirectory) -> None:
    document = line(
        bound("a", tag="cpu"), bound("b", tag="gpu"), bound("c", tag="gpu"), bound("d", tag="tpu")
    )
    assert warned(workers, document) == [
        ("TAG_WITHOUT_WORKER", "nodes[2].run.tag"),
        ("TAG_WITHOUT_WORKER", "nodes[4].run.tag"),
    ]


async def test_a_task_without_a_tag_has_the_tag_of_the_deployment(
    workers: WorkerDirectory,
) -> None:
    assert warned(workers, line(bound("a"))) == []
    assert warned(workers, line(bound("a")), default_tag="default") == [
        ("TAG_WITHOUT_WORKER", "nodes[1].run")
    ]


async def test_an_external_task_needs_no_worker(workers: WorkerDirectory) -> None:
    assert warned(workers, line({"id": "a", "type": "Task"}), default_tag="none") == []


async def test_there_is_no_warning_of_workers_while_the_registry_is_not_known(
    workers: WorkerDirectory,
) -> None:
    workers.on_resumed()
    assert warned(workers, line(bound("a", tag="gpu"))) == []


def choice(*edges: JsonObject, **ends: str) -> JsonObject:
    """Return a graph with a choice after the task `a`, and further ends."""
    document = line({"id": "a", "type": "Task"})
    document["nodes"] += [{"id": name, "type": kind} for name, kind in ends.items()]
    document["edges"] = [*edges_of("start", "a"), *edges]
    return document


async def test_a_choice_that_may_fire_no_edge_is_a_path_without_success(
    workers: WorkerDirectory,
) -> None:
    one = {"from": "a", "to": "done", "when": "output.ok"}
    other = {"from": "a", "to": "bad", "when": "output.bad"}
    assert warned(workers, choice(one)) == [("PATH_WITHOUT_SUCCESS", "nodes[1]")]
    assert warned(workers, choice(one, other, bad="Failed")) == [
        ("PATH_WITHOUT_SUCCESS", "nodes[1]")
    ]
    last = {"from": "a", "to": "bad"}
    assert warned(workers, choice(one, last, bad="Failed")) == []


async def test_a_fork_that_may_open_no_branch_is_a_path_without_success(
    workers: WorkerDirectory,
) -> None:
    document = forked({"id": "a", "type": "Task"}, {"id": "b", "type": "Task"})
    for edge in document["edges"]:
        if edge["from"] == "fork":
            edge["when"] = "input.x"
    assert warned(workers, document) == [("PATH_WITHOUT_SUCCESS", "nodes[2]")]
    document["edges"][1].pop("when")
    assert warned(workers, document) == []


async def test_the_first_node_after_which_no_success_follows_is_named(
    workers: WorkerDirectory,
) -> None:
    document = line({"id": "a", "type": "Task"})
    document["nodes"] += [
        {"id": "tell", "type": "Task"},
        {"id": "clean", "type": "Task"},
        {"id": "bad", "type": "Failed"},
    ]
    document["edges"] = [
        *edges_of("start", "a"),
        {"from": "a", "to": "tell", "when": "output.bad"},
        *edges_of("a", "done"),
        *edges_of("tell", "clean", "bad"),
    ]
    assert warned(workers, document) == [("PATH_WITHOUT_SUCCESS", "nodes[3]")]


async def test_warnings_are_in_the_order_of_the_nodes_and_at_most_100(
    workers: WorkerDirectory,
) -> None:
    document = line(*(bound(f"t{i}", tag=f"tag{i}") for i in range(150)))
    document["edges"][0]["when"] = "input.x"
    assert warned(workers, document) == [
        ("PATH_WITHOUT_SUCCESS", "nodes[0]"),
        *(("TAG_WITHOUT_WORKER", f"nodes[{i}].run.tag") for i in range(1, 100)),
    ]
