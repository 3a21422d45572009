"""What a command leads to: events, nothing, a late result, or a rejection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyoco_protocol.executions.events import AnyEvent
from pyoco_protocol.executions.rejections import Rejection


@dataclass(frozen=True, slots=True)
class Accepted:
    """The command is accepted with these events."""

    events: tuple[AnyEvent, ...]


@dataclass(frozen=True, slots=True)
class NoEffect:
    """The state is already as the command would make it, so there is no event."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The command does not fit the state."""

    reason: Rejection
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Late:
    """The report comes too late to count; it is kept as the late result of its node."""

    events: tuple[AnyEvent, ...]
    rejection: Rejected


@dataclass(frozen=True, slots=True)
class UnknownNode:
    """The graph has no node with this id."""

    node_id: str


Decision = Accepted | NoEffect | Rejected | Late | UnknownNode
