"""Bodies of `/dlq`."""

from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from pyoco_protocol.dead_letters import DeadLetter
from pyoco_protocol.ids import RunId, UnixSeconds
from pyoco_protocol.wire import WireModel


class DeadLetterItem(WireModel):
    """A dead letter as lists show it."""

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
    """The answer of `GET /dlq`, the newest first; a cursor of null is the end."""

    items: tuple[DeadLetterItem, ...]
    next_cursor: str | None


class NumberedDeadLetter(DeadLetter):
    """The answer of `GET /dlq/{seq}`: all of a dead letter, and where it is kept."""

    seq: int
    # Those who may read it know.
    tenant_id: str | None = Field(default=None, exclude=True)


# Longer than anything that can be matched.
_MAX_FILTER_CHARS: Final = 256


def _whole(value: object) -> object:
    # JSON does not tell 5 from 5.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named(field: str) -> dict[str, JsonValue]:
    return {"required": [field], "properties": {field: {"type": "string"}}}


class RedriveRequest(BaseModel):
    """The body of `POST /dlq/redrive`: which dead letters, and how fast."""

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
    def _names_some(self) -> Self:
        if self.reason is self.tag is self.run_id is None and not self.all:
            raise ValueError('name a reason, tag or run_id, or say "all": true')
        return self


class Redriven(WireModel):
    """A dead letter whose run is done again, as a new run."""

    seq: int
    run_id: str
    new_run_id: RunId


class RedriveFailure(WireModel):
    """A dead letter that stays where it is, and why."""

    seq: int
    err_id: str
    detail: str


class RedriveReport(WireModel):
    """The answer of `POST /dlq/redrive`: what was, or would be, redriven, the oldest first."""

    matched: int
    redriven: tuple[Redriven, ...]
    failed: tuple[RedriveFailure, ...]
    # Whether there are more that match: ask again.
    remaining: bool
    dry_run: bool
