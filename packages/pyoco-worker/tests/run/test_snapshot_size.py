"""A snapshot that is too large loses whole records, the largest first, and never its tasks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_protocol.problems import SnapshotTooLargeError
from pyoco_protocol.runs.lifecycle import RunStatus, TaskStatus
from pyoco_protocol.runs.snapshot import RunSnapshot, TaskRecord
from pyoco_testkit.builders import snapshot
from pyoco_worker.run.snapshot_size import fitted

texts = st.text(max_size=300) | st.integers(0, 3000).map(lambda size: "x" * size)
task_records = st.dictionaries(
    st.text(min_size=1, max_size=12), texts.map(lambda text: TaskRecord(output=text)), max_size=8
)


def with_records(records: dict[str, TaskRecord], **fields: Any) -> RunSnapshot:
    tasks = dict.fromkeys(records, TaskStatus.SUCCEEDED)
    return snapshot(status=RunStatus.COMPLETED, tasks=tasks, task_records=records, **fields)


def weight(name: str, record: TaskRecord) -> int:
    """Return the number of bytes that a record adds to a snapshot."""
    with_it = with_records({name: record})
    without = with_it.model_copy(update={"task_records": {}})
    return len(with_it.to_bytes()) - len(without.to_bytes())


@given(task_records, st.integers(min_value=200, max_value=6000))
def test_a_snapshot_fits_or_raises(records: dict[str, TaskRecord], max_bytes: int) -> None:
    stored = with_records(records)
    try:
        small = fitted(stored, max_bytes)
    except SnapshotTooLargeError:
        # The mark of dropped records changes the size: `true` is shorter than `false`.
        bare = stored.model_copy(
            update={"task_records": {}, "task_records_truncated": bool(records)}
        )
        assert len(bare.to_bytes()) > max_bytes
        return
    assert len(small.to_bytes()) <= max_bytes
    assert small.tasks == stored.tasks
    # Only whole records are dropped; the others are unchanged.
    assert small.task_records.items() <= stored.task_records.items()
    assert small.task_records_truncated == (small.task_records != stored.task_records)
    unruled = {"task_records", "task_records_truncated"}
    assert small.model_dump(exclude=unruled) == stored.model_dump(exclude=unruled)


def test_the_result_is_dropped_after_all_records_and_marked() -> None:
    records = {"large": TaskRecord(output="x" * 3000), "small": TaskRecord(output="x")}
    stored = with_records(records, result={"small": "x" * 1000})
    smaller = fitted(stored, 2000)
    assert (set(smaller.task_records), smaller.result) == ({"small"}, stored.result)
    assert (smaller.task_records_truncated, smaller.result_truncated) == (True, False)
    least = fitted(stored, 900)
    assert (least.task_records, least.result, least.result_truncated) == ({}, None, True)
    assert (least.tasks, least.status) == (stored.tasks, stored.status)


@given(task_records, st.integers(min_value=200, max_value=6000))
def test_the_largest_records_are_dropped_first(
    records: dict[str, TaskRecord], max_bytes: int
) -> None:
    try:
        small = fitted(with_records(records), max_bytes)
    except SnapshotTooLargeError:
        return
    kept = [weight(name, record) for name, record in small.task_records.items()]
    lost = [
        weight(name, record) for name, record in records.items() if name not in small.task_records
    ]
    assert not (kept and lost) or max(kept) <= min(lost)


def test_a_snapshot_that_fits_is_unchanged() -> None:
    stored = with_records({"a": TaskRecord(output="x" * 1000)})
    assert fitted(stored, len(stored.to_bytes())) is stored


def test_one_too_large_record_leaves_the_others() -> None:
    records = {
        "small": TaskRecord(output="x"),
        "huge": TaskRecord(output="x" * 100_000),
        "other": TaskRecord(output="y" * 100),
    }
    small = fitted(with_records(records), 2_000)
    assert small.task_records.keys() == {"small", "other"}
    assert small.task_records_truncated
    assert small.tasks.keys() == records.keys()


def test_the_mark_of_dropped_records_stays() -> None:
    stored = with_records({"a": TaskRecord(output=1)}, task_records_truncated=True)
    assert fitted(stored, 100_000).task_records_truncated


def test_a_snapshot_too_large_without_records_is_a_named_failure() -> None:
    stored = with_records({"a": TaskRecord(output=1)}, params={"text": "x" * 5_000})
    with pytest.raises(SnapshotTooLargeError) as failure:
        fitted(stored, 4_000)
    assert failure.value.run_id == stored.run_id
    assert failure.value.entry.err_id == "ERR-PYOCO-0010"
