"""Each event of a run is counted once, when it happens."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.metrics.labels import BoundedLabels, visible_samples
from pyoco_gateway.metrics.run_metrics import RunMetrics
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_testkit.builders import NOW

LABELS = {"tenant": "default", "flow": "hello", "tag": "gpu"}


class Feed:
    """Delivers changes of runs and reads the counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = RunMetrics(self.registry, clock=lambda: NOW)
        self.revision = 0

    def deliver(self, status: str | None, run_id: str = "r1", **fields: Any) -> None:
        self.revision += 1
        run = {"run_id": run_id, "flow_name": "hello", "tag": "gpu", "submitted_at": NOW, **fields}
        outline = None if status is None else RunOutline.model_validate({**run, "status": status})
        change = RunChange(run_id, self.revision, outline, b"{}", NOW, pending=0)
        self.metrics.on_change(change)

    def catch_up(self) -> None:
        self.metrics.on_caught_up()

    def reset(self) -> None:
        self.metrics.on_reset()
        self.metrics.on_resumed()

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def summary(self) -> dict[str, float]:
        return {
            "submitted": self.value("pyoco_runs_submitted_total", **LABELS),
            "completed": self.value("pyoco_runs_finished_total", status="COMPLETED", **LABELS),
            "waits": self.value("pyoco_run_queue_wait_seconds_count", **LABELS),
            "durations": self.value("pyoco_run_duration_seconds_count", **LABELS),
            "overruled": self.value("pyoco_cancel_overruled_total"),
        }


@pytest.fixture
def feed() -> Feed:
    started = Feed()
    started.reset()
    started.catch_up()
    return started


ONE_RUN = {"submitted": 1, "completed": 1, "waits": 1, "durations": 1, "overruled": 0}
NOTHING = dict.fromkeys(ONE_RUN, 0)


def test_a_run_is_counted_once_from_submission_to_end(feed: Feed) -> None:
    feed.deliver("PENDING")
    feed.deliver("RUNNING", start_time=NOW + 3)
    feed.deliver("RUNNING", start_time=NOW + 3)
    feed.deliver("COMPLETED", start_time=NOW + 3, end_time=NOW + 10)
    # Some writers store the end twice; later the run expires.
    feed.deliver("COMPLETED", start_time=NOW + 3, end_time=NOW + 10)
    feed.deliver(None)
    assert feed.summary() == ONE_RUN
    assert feed.value("pyoco_run_queue_wait_seconds_sum", **LABELS) == 3.0
    assert feed.value("pyoco_run_duration_seconds_sum", **LABELS) == 7.0


def test_a_run_of_which_only_the_end_is_delivered_is_counted(feed: Feed) -> None:
    feed.deliver("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    feed.deliver("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    assert feed.summary() == ONE_RUN


def test_runs_that_ended_before_the_start_are_not_counted() -> None:
    feed = Feed()
    feed.reset()
    feed.deliver("COMPLETED", "old", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW - 40)
    feed.deliver("PENDING", "waiting", submitted_at=NOW - 60)
    feed.deliver("RUNNING", "running", submitted_at=NOW - 60, start_time=NOW - 50)
    feed.catch_up()
    assert feed.summary() == NOTHING
    feed.deliver("COMPLETED", "old", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW - 40)
    assert feed.summary() == NOTHING
    # Runs that were active at the start and end now are counted.
    feed.deliver("COMPLETED", "waiting", submitted_at=NOW - 60, start_time=NOW, end_time=NOW + 1)
    feed.deliver("COMPLETED", "running", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW)
    assert feed.summary() == {**ONE_RUN, "submitted": 0, "completed": 2, "durations": 2}


def test_the_stored_runs_of_a_replaced_bucket_are_not_counted(feed: Feed) -> None:
    feed.deliver("PENDING")
    feed.reset()
    feed.deliver("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    assert feed.summary() == {**NOTHING, "submitted": 1}


def test_a_cancel_overruled_by_a_worker_of_an_earlier_server_is_counted(feed: Feed) -> None:
    feed.deliver("RUNNING", start_time=NOW)
    feed.deliver("CANCELLING", start_time=NOW, cancel_requested_at=NOW)
    # Such a worker writes the whole record without reading it.
    feed.deliver("RUNNING", start_time=NOW)
    feed.deliver("COMPLETED", start_time=NOW, end_time=NOW + 1)
    feed.deliver("CANCELLING", "r2", cancel_requested_at=NOW)
    feed.deliver("CANCELLED", "r2", cancel_requested_at=NOW, end_time=NOW)
    assert feed.summary()["overruled"] == 1


def test_different_clocks_give_no_negative_times(feed: Feed) -> None:
    feed.deliver("COMPLETED", start_time=NOW - 5, end_time=NOW - 6)
    assert feed.value("pyoco_run_queue_wait_seconds_sum", **LABELS) == 0.0
    assert feed.value("pyoco_run_duration_seconds_sum", **LABELS) == 0.0


def test_flows_and_tags_above_the_limit_are_counted_as_other(feed: Feed) -> None:
    for number in range(1000):
        feed.deliver("PENDING", f"r{number}", flow_name=f"flow-{number}", tag=f"tag-{number}")
    samples = [
        sample
        for family in feed.registry.collect()
        for sample in family.samples
        if sample.name == "pyoco_runs_submitted_total"
    ]
    assert len(samples) == 101
    assert (
        feed.value("pyoco_runs_submitted_total", tenant="default", flow="other", tag="other") == 900
    )


def test_known_labels_stay_when_the_limit_is_reached() -> None:
    labels = BoundedLabels(max_values=2)
    assert [labels.of(each, "t") for each in ("a", "b", "c", "a")] == [
        ("a", "t"),
        ("b", "t"),
        ("other", "other"),
        ("a", "t"),
    ]


def test_a_tenant_sees_its_own_metrics_and_others_see_the_sum(feed: Feed) -> None:
    for number, tenant_id in enumerate(("acme", "globex", None, "acme")):
        feed.deliver("PENDING", f"r{number}", tenant_id=tenant_id)
    feed.deliver("PENDING", "r9", tenant_id="globex", flow_name="billing")
    samples = [
        sample
        for family in feed.registry.collect()
        for sample in family.samples
        if sample.name == "pyoco_runs_submitted_total"
    ]

    def visible(tenant_id: str | None) -> dict[str, float]:
        caller = Caller(tenant_id, None, frozenset())
        shown = visible_samples(caller, samples)
        assert all(sample.labels.keys() == {"flow", "tag"} for sample in shown)
        return {sample.labels["flow"]: sample.value for sample in shown}

    assert visible("acme") == {"hello": 2}
    assert visible("globex") == {"hello": 1, "billing": 1}
    assert visible("default") == {"hello": 1}
    assert visible("unknown") == {}
    assert visible(None) == {"hello": 4, "billing": 1}


def test_the_limit_of_labels_applies_to_each_tenant(feed: Feed) -> None:
    for number in range(200):
        feed.deliver("PENDING", f"a{number}", tenant_id="acme", flow_name=f"flow-{number}")
    feed.deliver("PENDING", "g", tenant_id="globex", flow_name="own")

    labels = {"tenant": "globex", "flow": "own", "tag": "gpu"}
    assert feed.value("pyoco_runs_submitted_total", **labels) == 1
