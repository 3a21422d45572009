"""Bodies of `/runs/{run_id}/logs`: the output of a run."""

from pydantic import Field

from pyoco_protocol.ids import UnixSeconds
from pyoco_protocol.runs.output import OutputStreamName
from pyoco_protocol.wire import WireModel


class RunLogItem(WireModel):
    """A line that a run printed."""

    seq: int = Field(description="Number of the line within its attempt, from 0.")
    ts: UnixSeconds
    attempt: int
    task: str | None = None
    stream: OutputStreamName
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
