"""The JSON frames between a worker and its child processes, and their decoder."""

import struct
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from pyoco_protocol.runs.lifecycle import TaskStatus
from pyoco_protocol.runs.snapshot import TaskRecord
from pyoco_worker.child.limits import ChildLimits

_LENGTH: Final = struct.Struct("!I")
# A child limits its frames to far less, so a larger one is invalid.
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024


class FrameError(Exception):
    """The received bytes are not a valid frame."""


class Frame(BaseModel):
    """Base class of all frames."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def pack(self) -> bytes:
        """Return the encoded frame with its length prefix."""
        return packed(self.model_dump_json().encode())


class RunFrame(Frame):
    """Base class of the frames about one run.

    The worker gives each execution a new secret, and accepts only frames of a child that carry the
    id and the secret of the run the child executes now.
    """

    run_id: str
    secret: str = Field(default="", repr=False)


class Setup(Frame):
    """Parent to child, the first frame: the resolver to load, and limits."""

    kind: Literal["setup"] = "setup"
    resolver: str | None
    import_paths: tuple[str, ...]
    max_record_bytes: int
    directory: str
    # In hex, the mark that starts each output record.
    output_mark: str
    max_output_bytes: int
    # Modules that workflow files may call; None applies the default rule of CallablePolicy.
    callable_allow: tuple[str, ...] | None = None
    limits: ChildLimits = ChildLimits()


class RunOrder(RunFrame):
    """Parent to child: execute this run."""

    kind: Literal["run"] = "run"
    attempt: int
    flow_name: str
    params: dict[str, JsonValue]
    # The workflow file, if the run was submitted with one.
    workflow_yaml: str | None = None


class CancelOrder(Frame):
    """Parent to child: ask the run to stop."""

    kind: Literal["cancel"] = "cancel"
    run_id: str


class ProgressOrder(Frame):
    """Parent to child: report the states of all tasks of this run."""

    kind: Literal["tell"] = "tell"
    run_id: str


class Ready(Frame):
    """Child to parent: the resolver is loaded."""

    kind: Literal["ready"] = "ready"


class Unusable(Frame):
    """Child to parent: the resolver cannot be loaded."""

    kind: Literal["unusable"] = "unusable"
    error: str


class Progress(RunFrame):
    """Child to parent, on request: the states of all tasks of the run."""

    kind: Literal["progress"] = "progress"
    tasks: dict[str, TaskStatus]


class TaskChanged(RunFrame):
    """Child to parent: a task started or ended. At the start of a run, ends are not reported."""

    kind: Literal["task"] = "task"
    task: str
    state: TaskStatus


FinishedHow = Literal[
    "succeeded",
    "failed",
    "stopped",
    "flow_not_found",
    "workflow_invalid",
    "callable_refused",
    "limit_exceeded",
]


class Finished(RunFrame):
    """Child to parent: the flow has ended. A recorded cancel still overrides `how`."""

    kind: Literal["finished"] = "finished"
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
    """Return a body with its length prefix."""
    return _LENGTH.pack(len(body)) + body


def parse_from_child(body: bytes) -> ChildFrame:
    """Return the frame that a child sent; raise FrameError if it is invalid."""
    try:
        return _from_child.validate_json(body)
    except ValueError as error:
        raise FrameError(str(error)) from error


def parse_from_parent(body: bytes) -> ParentFrame:
    """Return the frame that the parent sent."""
    return _from_parent.validate_json(body)


class FrameDecoder:
    """Splits a byte stream into frame bodies; the bytes may arrive in any pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that are complete after `data`."""
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
