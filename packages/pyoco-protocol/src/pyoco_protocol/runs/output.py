"""What runs print, as it travels and rests in the stream of run logs."""

import hashlib
from typing import Literal

from pydantic import Field

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel

LogStreamName = Literal["stdout", "stderr"]


class LogEntry(WireModel):
    """A line that a run printed, or as much of one as there was when its chunk was sent."""

    ts: UnixSeconds
    # None where it cannot be told, as for what other programs print.
    task: str | None = None
    stream: LogStreamName
    text: str


class LogChunk(WireModel):
    """A part of what one attempt of a run printed; travels on `Names.run_log(run_id)`."""

    run_id: str
    attempt: int
    n: int
    first_line: int = 0
    entries: tuple[LogEntry, ...] = Field(default=())
    truncated: bool = False

    @property
    def message_id(self) -> str:
        """What makes a repeat the same message."""
        # With what it says: a run that was deleted may come again under its id.
        digest = hashlib.sha256(self.to_bytes()).hexdigest()[:16]
        return f"{self.run_id}:{self.attempt}:{self.n}:{digest}"

    def to_bytes(self) -> bytes:
        """Return the stored form; what is not known is left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "LogChunk":
        """Return the chunk in a stored message; raise ValueError for anything else."""
        return cls.model_validate_json(data)
