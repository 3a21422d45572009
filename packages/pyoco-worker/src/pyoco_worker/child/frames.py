"""The JSON frames between a worker and its child processes, and how they are cut from a stream."""

import struct
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord

_LENGTH: Final = struct.Struct("!I")
# A child that sends more in one frame is broken: its own cap is far below.
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024


class FrameError(Exception):
    """What came through the pipe is not a frame."""


class Frame(BaseModel):
    """Base of all frames."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def pack(self) -> bytes:
        """Return the frame as it goes through the pipe."""
        return packed(self.model_dump_json().encode())


class Setup(Frame):
    """Parent to child, first of all: what to load and what to keep to."""

    kind: Literal["setup"] = "setup"
    resolver: str | None
    import_paths: tuple[str, ...]
    max_record_bytes: int
    directory: str
    # What the child puts before what its flows print, in hex; and how much of it is wanted.
    output_mark: str
    max_log_bytes: int
    # Modules that workflow files may call; None leaves it to the worker's own rule.
    callable_allow: tuple[str, ...] | None = None


class RunOrder(Frame):
    """Parent to child: execute this run."""

    kind: Literal["run"] = "run"
    run_id: str
    attempt: int
    flow_name: str
    params: dict[str, JsonValue]
    # The text of the flow, where the run brings its own.
    workflow_yaml: str | None = None


class CancelOrder(Frame):
    """Parent to child: ask the run to stop."""

    kind: Literal["cancel"] = "cancel"
    run_id: str


class ProgressOrder(Frame):
    """Parent to child: tell where the tasks of this run stand."""

    kind: Literal["tell"] = "tell"
    run_id: str


class Ready(Frame):
    """Child to parent: the resolver is loaded."""

    kind: Literal["ready"] = "ready"


class Unusable(Frame):
    """Child to parent: the resolver cannot be loaded; no child will do better."""

    kind: Literal["unusable"] = "unusable"
    error: str


class Progress(Frame):
    """Child to parent, when asked: where the tasks of the run stand."""

    kind: Literal["progress"] = "progress"
    run_id: str
    tasks: dict[str, TaskStatus]


class TaskChanged(Frame):
    """Child to parent: a task began or ended. In the first moments of a run, begun only."""

    kind: Literal["task"] = "task"
    run_id: str
    task: str
    state: TaskStatus


FinishedHow = Literal[
    "succeeded", "failed", "stopped", "flow_not_found", "workflow_invalid", "callable_refused"
]


class Finished(Frame):
    """Child to parent: the run is over. `how` is what the flow did, not what the run becomes."""

    kind: Literal["finished"] = "finished"
    run_id: str
    how: FinishedHow
    error: str | None = None
    traceback: str | None = None
    tasks: dict[str, TaskStatus] = Field(default_factory=dict)
    records: dict[str, TaskRecord] = Field(default_factory=dict)
    records_truncated: bool = False
    result: dict[str, JsonValue] | None = None
    result_truncated: bool = False


ChildFrame = Annotated[
    Ready | Unusable | Progress | TaskChanged | Finished, Field(discriminator="kind")
]
ParentFrame = Annotated[Setup | RunOrder | CancelOrder | ProgressOrder, Field(discriminator="kind")]

_from_child: Final[TypeAdapter[ChildFrame]] = TypeAdapter(ChildFrame)
_from_parent: Final[TypeAdapter[ParentFrame]] = TypeAdapter(ParentFrame)


def packed(body: bytes) -> bytes:
    """Return a body with its length before it."""
    return _LENGTH.pack(len(body)) + body


def parse_from_child(body: bytes) -> ChildFrame:
    """Return the frame a child sent; raise FrameError for anything else."""
    try:
        return _from_child.validate_json(body)
    except ValueError as error:
        raise FrameError(str(error)) from error


def parse_from_parent(body: bytes) -> ParentFrame:
    """Return the frame the parent sent."""
    return _from_parent.validate_json(body)


class FrameCutter:
    """Cuts a stream of bytes into frames, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that are whole now."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {length} bytes")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield body
