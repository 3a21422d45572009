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
    """Response of `GET /runs/{run_id}/logs`."""

    run_id: str
    items: tuple[RunLogItem, ...]
    next_cursor: str | None = Field(
        default=None, description="Cursor of the next page; null at the end of a terminal run."
    )
    truncated: bool = Field(
        default=False, description="Whether the page ends where the stored output was cut off."
    )


class RunLogEvent(WireModel):
    """Data of the event `log` of `GET /runs/{run_id}/logs?follow=1`."""

    run_id: str
    items: tuple[RunLogItem, ...]
    truncated: bool = False
