"""What is kept of a job that could not be done."""

from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue, ValidationError

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel


class DeadLetterReason(StrEnum):
    """Why a job is dead; the first three are those of the published protocol."""

    INVALID_JOB = "invalid_job"
    FLOW_NOT_FOUND = "flow_not_found"
    EXECUTION_ERROR = "execution_error"
    MAX_DELIVER_EXCEEDED = "max_deliver_exceeded"
    RUN_ABSENT = "run_absent"
    UNTRUSTED_JOB = "untrusted_job"


# Where the job does not name a usable tag.
NO_TAG: Final = "unknown"
# What stands in the stream of dead letters and is none; never written, only shown.
UNREADABLE: Final = "unreadable"


class DeadLetter(WireModel):
    """A dead job; travels on `Names.dlq(tag)`. Carries no params: they may be secret."""

    timestamp: UnixSeconds
    reason: str
    error: str | None = None
    err_id: str | None = None
    run_id: str | None = None
    # Whose run it was.
    tenant_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: tuple[str, ...] = Field(default=())
    worker_id: str | None = None
    attempt: int | None = None
    num_delivered: int | None = None
    subject: str | None = None
    details: dict[str, JsonValue] | None = None

    def to_bytes(self) -> bytes:
        """Return the message body."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, stored_at: float) -> "DeadLetter":
        """Return the letter in a message; for anything else, one that says so.

        Whatever lies in the stream can so be looked at and removed.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return cls(
                timestamp=stored_at, reason=UNREADABLE, error="this message is no dead letter"
            )


def dead_letter_id(run_id: str | None, stream_seq: int, attempt: int | None) -> str:
    """Return the id under which repeats of one dead letter are the same message."""
    return f"dlq:{run_id or '-'}:{stream_seq}:{attempt or 0}"
