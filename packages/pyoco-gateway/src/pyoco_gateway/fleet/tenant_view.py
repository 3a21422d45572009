"""What a tenant sees of workers: they are everybody's, what they are at is not."""

from collections.abc import Callable

from pyoco_protocol.http.workers import WorkerView


def masked(worker: WorkerView, is_own: Callable[[str], bool]) -> WorkerView:
    """Return the worker without the runs that are not the caller's."""
    current = tuple(filter(is_own, worker.current_run_ids))
    hidden: dict[str, object] = {"current_run_ids": current}
    if worker.current_run_id is not None and not is_own(worker.current_run_id):
        hidden["current_run_id"] = current[0] if current else None
    if worker.last_run_id is not None and not is_own(worker.last_run_id):
        hidden |= dict.fromkeys(
            ("last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at")
        )
    return worker.model_copy(update=hidden)
