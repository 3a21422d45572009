"""Messages of the stream that stores the output of runs (stdout and stderr)."""

import hashlib
from typing import Literal

from pydantic import Field

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel

OutputStreamName = Literal["stdout", "stderr"]


class OutputEntry(WireModel):
    """A line that a run printed, or the part of it that existed when the chunk was sent."""

    ts: UnixSeconds
    # None if the task is not known, for example for output of a subprocess.
    task: str | None = None
    stream: OutputStreamName
    text: str


class OutputChunk(WireModel):
    """A part of the output of one attempt, published on `Names.run_log(run_id)`."""

    run_id: str
    attempt: int
    n: int
    first_line: int = 0
    entries: tuple[OutputEntry, ...] = Field(default=())
    truncated: bool = False

    @property
    def message_id(self) -> str:
        """The Nats-Msg-Id; a repeat of the chunk has the same id."""
        # Includes a digest because a deleted run id can be used again with other output.
        digest = hashlib.sha256(self.to_bytes()).hexdigest()[:16]
        return f"{self.run_id}:{self.attempt}:{self.n}:{digest}"

    def to_bytes(self) -> bytes:
        """Return the stored form, without fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "OutputChunk":
        """Return the chunk in a stored message; raise ValueError if it is not valid."""
        return cls.model_validate_json(data)
