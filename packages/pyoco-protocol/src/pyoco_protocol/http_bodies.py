"""Request and response bodies of the HTTP API."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pyoco_protocol.ids import FlowName, Label, RunId, Tag, UnixSeconds
from pyoco_protocol.jobs import MAX_TAGS
from pyoco_protocol.run_lifecycle import RunStatus
from pyoco_protocol.run_logs import LogStreamName
from pyoco_protocol.wire import WireModel


class RunSubmission(BaseModel):
    """The body of `POST /runs`. An unknown field is refused: it is a typo more often than not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flow_name: FlowName = Field(examples=["hello"])
    params: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"name": "world"}])
    tag: Tag | None = Field(default=None, examples=["default"])
    tags: tuple[Label, ...] | None = Field(default=None, max_length=MAX_TAGS)


class RunCancellation(WireModel):
    """The body of `POST /runs/{run_id}/cancel`, all of it optional."""

    reason: str | None = Field(default=None, max_length=1000, examples=["wrong parameters"])


class RunAccepted(WireModel):
    """The answer to a submission that is stored and queued."""

    run_id: RunId
    status: RunStatus
    warnings: tuple[str, ...] = ()


class Health(WireModel):
    """The answer of `GET /health`: this process serves HTTP. It says nothing of the broker."""

    status: str = "ok"
    version: str


class RunLogItem(WireModel):
    """A line that a run printed."""

    seq: int = Field(description="Number of the line within its attempt, from 0.")
    ts: UnixSeconds
    attempt: int
    task: str | None = None
    stream: LogStreamName
    text: str


class RunLogPage(WireModel):
    """The answer of `GET /runs/{run_id}/logs`."""

    run_id: str
    items: tuple[RunLogItem, ...]
    next_cursor: str | None = Field(
        default=None, description="Where to go on; null once the run is over and all is read."
    )
    truncated: bool = Field(
        default=False, description="Whether more was printed than is kept, and this is the last."
    )


class RunLogEvent(WireModel):
    """What the event `log` of `GET /runs/{run_id}/logs?follow=1` carries."""

    run_id: str
    items: tuple[RunLogItem, ...]
    truncated: bool = False
