"""Reduces a snapshot to the size that can be stored."""

from pydantic_core import to_json

from pyoco_protocol.problems import SnapshotTooLargeError
from pyoco_protocol.runs.snapshot import RunSnapshot


def fitted(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    """Return `snapshot` within `max_bytes`, without its largest task records if necessary.

    The result is removed after all task records; `tasks` always stay. Raises SnapshotTooLargeError
    if the rest is still too large.
    """
    size = len(snapshot.to_bytes())
    if size <= max_bytes:
        return snapshot
    sizes = {
        name: len(to_json(record, exclude_none=True)) + len(to_json(name)) + 2
        for name, record in snapshot.task_records.items()
    }
    kept = dict(snapshot.task_records)
    truncated = snapshot
    if kept:
        truncated = snapshot.model_copy(update={"task_records_truncated": True})
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if size <= max_bytes:
            break
        del kept[name]
        size -= sizes[name]
    truncated = truncated.model_copy(update={"task_records": kept})
    final_size = len(truncated.to_bytes())
    # The sum does not count every comma, so the encoded size decides.
    while final_size > max_bytes and kept:
        del kept[max(kept, key=lambda name: sizes[name])]
        truncated = truncated.model_copy(update={"task_records": kept})
        final_size = len(truncated.to_bytes())
    if final_size > max_bytes and truncated.result is not None:
        truncated = truncated.model_copy(update={"result": None, "result_truncated": True})
        final_size = len(truncated.to_bytes())
    if final_size > max_bytes:
        raise SnapshotTooLargeError(snapshot.run_id, final_size, max_bytes)
    return truncated
