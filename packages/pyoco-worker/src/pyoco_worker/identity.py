"""Who a worker is, and whether a run is its own."""

from dataclasses import dataclass

from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class Identity:
    """One life of a worker: its name, and an id that no other life has."""

    worker_id: str
    instance_id: str

    def owns(self, snapshot: RunSnapshot, attempt: int) -> bool:
        """Whether `snapshot` is still held by this life, under this attempt."""
        return snapshot.instance_id == self.instance_id and snapshot.attempt == attempt
