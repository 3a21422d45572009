"""Dead letters: records of jobs that could not be executed."""

from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue, ValidationError

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.wire import WireModel


class DeadLetterReason(StrEnum):
    """Why a job was dead-lettered; the published protocol defines the first three."""

    INVALID_JOB = "invalid_job"
    FLOW_NOT_FOUND = "flow_not_found"
    EXECUTION_ERROR = "execution_error"
    MAX_DELIVER_EXCEEDED = "max_deliver_exceeded"
    RUN_ABSENT = "run_absent"
    UNTRUSTED_JOB = "untrusted_job"


# Tag of a dead letter when the job has no valid tag.
NO_TAG: Final = "unknown"
# Reason shown for a message that is not a dead letter; never stored.
UNREADABLE: Final = "unreadable"


class DeadLetter(WireModel):
    """A dead letter, published on `Names.dlq(tag)`. Has no params: they may contain secrets."""

    timestamp: UnixSeconds
    reason: str
    error: str | None = None
    err_id: str | None = None
    run_id: str | None = None
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
        """Return the dead letter in a message, or an `UNREADABLE` one if it is not valid.

        An operator can list and delete invalid messages like any other dead letter.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return cls(
                timestamp=stored_at, reason=UNREADABLE, error="this message is not a dead letter"
            )


def dead_letter_id(letter: DeadLetter, stream_seq: int) -> str:
    """Return the Nats-Msg-Id of a dead letter; repeats of it have the same id.

    An ended run has one letter for each attempt, although several of its jobs may be delivered
    after its end. Its end time separates it from a later run with the same id.
    """
    if letter.attempt is not None:
        return f"dlq:{letter.run_id}:{letter.attempt}:{letter.timestamp}"
    return f"dlq:{letter.run_id or '-'}:job-{stream_seq}"
