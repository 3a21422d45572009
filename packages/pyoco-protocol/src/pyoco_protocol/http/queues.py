"""Body of `/queues`."""

from pyoco_protocol.wire import WireModel


class QueueView(WireModel):
    """One tag of `GET /queues`: its jobs, workers and free slots."""

    tag: str
    pending: int
    in_flight: int
    # Age of the oldest waiting job.
    oldest_age_sec: float | None = None
    workers: int
    free_slots: int
    warnings: tuple[str, ...] = ()
