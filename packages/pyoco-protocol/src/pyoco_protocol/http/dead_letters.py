"""Bodies of `/dlq`."""

from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.ids import RunId, UnixSeconds
from pyoco_protocol.wire import WireModel


class DeadLetterItem(WireModel):
    """A dead letter in a list."""

    seq: int
    timestamp: UnixSeconds
    reason: str
    error: str | None = None
    err_id: str | None = None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    worker_id: str | None = None
    attempt: int | None = None


class DeadLetterPage(WireModel):
    """Response of `GET /dlq`, newest first. `next_cursor` is null on the last page."""

    items: tuple[DeadLetterItem, ...]
    next_cursor: str | None


class NumberedDeadLetter(DeadLetter):
    """Response of `GET /dlq/{seq}`: a dead letter and its sequence."""

    seq: int
    # Callers see only dead letters of their own tenant.
    tenant_id: str | None = Field(default=None, exclude=True)


# No value that a filter can match is longer.
_MAX_FILTER_CHARS: Final = 256


def _whole(value: object) -> object:
    # In JSON, 5.0 is the same number as 5.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named(field: str) -> dict[str, JsonValue]:
    return {"required": [field], "properties": {field: {"type": "string"}}}


class RedriveRequest(BaseModel):
    """Body of `POST /dlq/redrive`: selects dead letters and limits the rate."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        json_schema_extra={
            "anyOf": [
                *(_named(field) for field in ("reason", "tag", "run_id")),
                {"required": ["all"], "properties": {"all": {"const": True}}},
            ]
        },
    )

    reason: str | None = Field(
        default=None, max_length=_MAX_FILTER_CHARS, examples=["execution_error"]
    )
    tag: str | None = Field(default=None, max_length=_MAX_FILTER_CHARS, examples=["default"])
    run_id: str | None = Field(default=None, max_length=_MAX_FILTER_CHARS)
    all: bool = False
    max: Annotated[int, BeforeValidator(_whole)] = Field(default=100, ge=1, le=1000)
    rate_per_sec: float = Field(default=50.0, ge=0.1, le=1000, allow_inf_nan=False)
    dry_run: bool = False

    @model_validator(mode="after")
    def _selects_dead_letters(self) -> Self:
        if self.reason is self.tag is self.run_id is None and not self.all:
            raise ValueError('set reason, tag or run_id, or "all": true')
        return self


class Redriven(WireModel):
    """A redriven dead letter and its new run."""

    seq: int
    run_id: str
    new_run_id: RunId


class RedriveFailure(WireModel):
    """A dead letter that was not redriven, and the reason."""

    seq: int
    err_id: str
    detail: str


class RedriveReport(WireModel):
    """Response of `POST /dlq/redrive`: the redriven dead letters, oldest first."""

    matched: int
    redriven: tuple[Redriven, ...]
    failed: tuple[RedriveFailure, ...]
    # Whether more dead letters match; repeat the request for them.
    remaining: bool
    dry_run: bool
