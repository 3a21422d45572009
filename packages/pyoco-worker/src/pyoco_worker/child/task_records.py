"""The records of a run's tasks: inputs, output, times and error of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_worker.child.error_text import MAX_ERROR_CHARS, MAX_TRACEBACK_CHARS, limited
from pyoco_worker.child.values import TooLargeError, safe_text, to_json


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """All records that can be represented, and whether one was too large."""

    all: dict[str, TaskRecord]
    is_truncated: bool


def task_records(
    engine_records: Mapping[str, Any], state_of: Callable[[str], TaskStatus], max_bytes: int
) -> TaskRecords:
    """Return the engine's task records as JSON values; each may take `max_bytes`."""
    records: dict[str, TaskRecord] = {}
    truncated = False
    for name, record in engine_records.items():
        try:
            records[name] = _task_record(record, state_of(name), max_bytes)
        except TooLargeError:
            truncated = True
        except BaseException as error:  # noqa: BLE001 - values of user classes may do anything
            records[name] = TaskRecord(
                state=state_of(name), error=f"the record cannot be read: {safe_text(error)}"
            )
    return TaskRecords(records, truncated)


def _task_record(record: Any, state: TaskStatus, max_bytes: int) -> TaskRecord:
    inputs = to_json(record.inputs, max_bytes=max_bytes)
    output = to_json(record.output, max_bytes=max_bytes)
    failed = state is TaskStatus.FAILED
    return TaskRecord(
        state=state,
        started_at=record.started_at,
        ended_at=record.ended_at,
        duration_ms=record.duration_ms,
        inputs=inputs or None,
        output=output,
        # After a successful retry the engine still has the error of the earlier attempt.
        error=limited(record.error, MAX_ERROR_CHARS) if failed else None,
        traceback=limited(record.traceback, MAX_TRACEBACK_CHARS) if failed else None,
    )


def smallest_records(records: dict[str, TaskRecord], max_bytes: int) -> dict[str, TaskRecord]:
    """Return as many records as fit into `max_bytes`, the smallest first.

    A snapshot cannot hold more, and all records of a large flow can exceed the size of a frame.
    """
    if len(records) == 1:
        return records
    sizes = {
        name: len(record.model_dump_json(exclude_none=True)) for name, record in records.items()
    }
    left, kept = max_bytes, set[str]()
    for name in sorted(sizes, key=sizes.__getitem__):
        left -= sizes[name]
        if left < 0:
            break
        kept.add(name)
    return {name: record for name, record in records.items() if name in kept}
