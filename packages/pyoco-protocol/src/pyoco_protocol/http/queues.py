"""Body of `/queues`."""

from pyoco_protocol.wire import WireModel


class QueueView(WireModel):
    """One tag of `GET /queues`: what waits for it, and who could take it."""

    tag: str
    pending: int
    in_flight: int
    # How long the first of those that wait has waited.
    oldest_age_sec: float | None = None
    workers: int
    free_slots: int
    warnings: tuple[str, ...] = ()
