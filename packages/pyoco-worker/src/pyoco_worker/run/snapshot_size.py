"""Makes a snapshot small enough to be stored."""

from pydantic_core import to_json

from pyoco_protocol.problems import SnapshotTooLargeError
from pyoco_protocol.runs.snapshot import RunSnapshot


def fitted(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    """Return `snapshot` within `max_bytes`: whole task records go, the largest first.

    The result goes after them, `tasks` always stay. Raises SnapshotTooLargeError where even that
    is too much.
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
    # The sum leaves out a comma here and there; the last word has the real size.
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
