"""The actor of a command or event."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from pyoco_protocol.wire import WireModel


class ActorKind(StrEnum):
    """What kind of actor caused an event."""

    SYSTEM = "system"
    USER = "user"
    SCHEDULER = "scheduler"
    EXTERNAL = "external"


class Actor(WireModel):
    """The actor of a command; derived from the credential of the request, never from a header."""

    kind: ActorKind = Field(examples=["user"])
    id: str | None = Field(default=None, examples=["ann"])


ORCHESTRATOR: Final = Actor(kind=ActorKind.SYSTEM, id="orchestrator")
RUN_RESULTS: Final = Actor(kind=ActorKind.SYSTEM, id="runs")
TIMER: Final = Actor(kind=ActorKind.SCHEDULER, id="timer")
