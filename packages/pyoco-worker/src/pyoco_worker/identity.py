"""The identity of one worker process, and whether a run belongs to it."""

from dataclasses import dataclass

from pyoco_protocol.runs.snapshot import RunSnapshot


@dataclass(frozen=True, slots=True)
class Identity:
    """The worker id, and an instance id that is new each time the worker starts."""

    worker_id: str
    instance_id: str

    def owns(self, snapshot: RunSnapshot, attempt: int) -> bool:
        """Whether this instance owns the run in `snapshot`, under this attempt."""
        return snapshot.instance_id == self.instance_id and snapshot.attempt == attempt
