"""What becomes of runs is counted once, while it happens."""

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
    """Tells of runs, and reads what was counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = RunMetrics(self.registry, clock=lambda: NOW)
        self.revision = 0

    def tell(self, status: str | None, run_id: str = "r1", **fields: Any) -> None:
        self.revision += 1
        said = {"run_id": run_id, "flow_name": "hello", "tag": "gpu", "submitted_at": NOW, **fields}
        outline = None if status is None else RunOutline.model_validate({**said, "status": status})
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
    made = Feed()
    made.reset()
    made.catch_up()
    return made


ONE_RUN = {"submitted": 1, "completed": 1, "waits": 1, "durations": 1, "overruled": 0}
NOTHING = dict.fromkeys(ONE_RUN, 0)


def test_a_run_is_counted_once_from_submission_to_end(feed: Feed) -> None:
    feed.tell("PENDING")
    feed.tell("RUNNING", start_time=NOW + 3)
    feed.tell("RUNNING", start_time=NOW + 3)
    feed.tell("COMPLETED", start_time=NOW + 3, end_time=NOW + 10)
    # Some writers store the end again, and in the end it expires.
    feed.tell("COMPLETED", start_time=NOW + 3, end_time=NOW + 10)
    feed.tell(None)
    assert feed.summary() == ONE_RUN
    assert feed.value("pyoco_run_queue_wait_seconds_sum", **LABELS) == 3.0
    assert feed.value("pyoco_run_duration_seconds_sum", **LABELS) == 7.0


def test_a_run_that_came_and_went_between_two_looks_is_counted(feed: Feed) -> None:
    feed.tell("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    feed.tell("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    assert feed.summary() == ONE_RUN


def test_history_is_not_counted_again_at_each_start() -> None:
    feed = Feed()
    feed.reset()
    feed.tell("COMPLETED", "old", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW - 40)
    feed.tell("PENDING", "waiting", submitted_at=NOW - 60)
    feed.tell("RUNNING", "running", submitted_at=NOW - 60, start_time=NOW - 50)
    feed.catch_up()
    assert feed.summary() == NOTHING
    feed.tell("COMPLETED", "old", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW - 40)
    assert feed.summary() == NOTHING
    # What was under way then and ends now is news.
    feed.tell("COMPLETED", "waiting", submitted_at=NOW - 60, start_time=NOW, end_time=NOW + 1)
    feed.tell("COMPLETED", "running", submitted_at=NOW - 60, start_time=NOW - 50, end_time=NOW)
    assert feed.summary() == {**ONE_RUN, "submitted": 0, "completed": 2, "durations": 2}


def test_a_bucket_that_is_another_one_is_history_again(feed: Feed) -> None:
    feed.tell("PENDING")
    feed.reset()
    feed.tell("COMPLETED", start_time=NOW + 1, end_time=NOW + 2)
    assert feed.summary() == {**NOTHING, "submitted": 1}


def test_a_cancel_that_a_worker_of_an_earlier_server_overrules_is_counted(feed: Feed) -> None:
    feed.tell("RUNNING", start_time=NOW)
    feed.tell("CANCELLING", start_time=NOW, cancel_requested_at=NOW)
    # Written whole, without looking.
    feed.tell("RUNNING", start_time=NOW)
    feed.tell("COMPLETED", start_time=NOW, end_time=NOW + 1)
    feed.tell("CANCELLING", "r2", cancel_requested_at=NOW)
    feed.tell("CANCELLED", "r2", cancel_requested_at=NOW, end_time=NOW)
    assert feed.summary()["overruled"] == 1


def test_clocks_that_differ_make_no_negative_time(feed: Feed) -> None:
    feed.tell("COMPLETED", start_time=NOW - 5, end_time=NOW - 6)
    assert feed.value("pyoco_run_queue_wait_seconds_sum", **LABELS) == 0.0
    assert feed.value("pyoco_run_duration_seconds_sum", **LABELS) == 0.0


def test_flows_and_tags_without_end_become_one_other(feed: Feed) -> None:
    for number in range(1000):
        feed.tell("PENDING", f"r{number}", flow_name=f"flow-{number}", tag=f"tag-{number}")
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


def test_labels_that_were_let_through_stay() -> None:
    labels = BoundedLabels(max_values=2)
    assert [labels.of(each, "t") for each in ("a", "b", "c", "a")] == [
        ("a", "t"),
        ("b", "t"),
        ("other", "other"),
        ("a", "t"),
    ]


def test_a_tenant_sees_its_own_numbers_and_anybody_the_sum(feed: Feed) -> None:
    for number, tenant_id in enumerate(("acme", "globex", None, "acme")):
        feed.tell("PENDING", f"r{number}", tenant_id=tenant_id)
    feed.tell("PENDING", "r9", tenant_id="globex", flow_name="theirs")
    samples = [
        sample
        for family in feed.registry.collect()
        for sample in family.samples
        if sample.name == "pyoco_runs_submitted_total"
    ]

    def seen(tenant_id: str | None) -> dict[str, float]:
        caller = Caller(tenant_id, None, frozenset())
        shown = visible_samples(caller, samples)
        assert all(sample.labels.keys() == {"flow", "tag"} for sample in shown)
        return {sample.labels["flow"]: sample.value for sample in shown}

    assert seen("acme") == {"hello": 2}
    assert seen("globex") == {"hello": 1, "theirs": 1}
    assert seen("default") == {"hello": 1}
    assert seen("nobody") == {}
    assert seen(None) == {"hello": 4, "theirs": 1}


def test_no_tenant_can_use_up_the_names_of_anothers_flows(feed: Feed) -> None:
    for number in range(200):
        feed.tell("PENDING", f"a{number}", tenant_id="acme", flow_name=f"flow-{number}")
    feed.tell("PENDING", "g", tenant_id="globex", flow_name="mine")

    labels = {"tenant": "globex", "flow": "mine", "tag": "gpu"}
    assert feed.value("pyoco_runs_submitted_total", **labels) == 1
