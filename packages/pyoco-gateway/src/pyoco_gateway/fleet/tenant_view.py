"""Workers as tenants see them: all workers, but only the tenant's own runs on them."""

from collections.abc import Callable

from pyoco_protocol.http.workers import WorkerView


def with_own_runs_only(worker: WorkerView, is_own: Callable[[str], bool]) -> WorkerView:
    """Return the worker without the runs of other tenants."""
    current = tuple(filter(is_own, worker.current_run_ids))
    hidden: dict[str, object] = {"current_run_ids": current}
    if worker.current_run_id is not None and not is_own(worker.current_run_id):
        hidden["current_run_id"] = current[0] if current else None
    if worker.last_run_id is not None and not is_own(worker.last_run_id):
        hidden |= dict.fromkeys(
            ("last_run_id", "last_run_status", "last_run_started_at", "last_run_finished_at")
        )
    return worker.model_copy(update=hidden)
