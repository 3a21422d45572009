"""A run and its tasks as the live view shows them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyoco_client.cli.display.safe_text import encodable

_TERMINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
# The heartbeat of a live worker is never older than this. If it is, this machine's clock is wrong.
_MAX_HEARTBEAT_AGE_SEC: Final = 60.0


@dataclass(frozen=True, slots=True)
class DisplayedTask:
    """One task of a run."""

    name: str
    state: str
    started_at: float | None
    duration_sec: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class DisplayedRun:
    """The fields of a run that the live view shows."""

    run_id: str
    flow_name: str
    status: str
    tag: str | None
    tasks: tuple[DisplayedTask, ...]
    began_at: float | None
    ended_at: float | None
    # When the server last wrote the state of the run.
    changed_at: float
    # The latest time in the snapshot: the server's clock shows this time or a later one.
    server_time: float
    attempt: int
    error: str | None
    err_id: str | None
    result: Any

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.status in _TERMINAL

    @classmethod
    def of(cls, snapshot: Any) -> Self:
        """Return the run of a snapshot, which is a JSON object or a model of the SDK.

        Missing and malformed fields are left out: the gateway may be older or newer than this.
        """
        found = snapshot if isinstance(snapshot, Mapping) else snapshot.model_dump(mode="json")
        times = [_number(found.get(name)) or 0.0 for name in ("updated_at", "heartbeat_at")]
        return cls(
            run_id=str(found.get("run_id") or "-"),
            flow_name=str(found.get("flow_name") or "-"),
            status=str(found.get("status") or "-"),
            tag=_text(found.get("tag")),
            tasks=tuple(_tasks(found)),
            began_at=_number(found.get("start_time")) or _number(found.get("submitted_at")),
            ended_at=_number(found.get("end_time")),
            changed_at=times[0],
            server_time=max(times),
            attempt=int(_number(found.get("attempt")) or 0),
            error=_text(found.get("error")),
            err_id=_text(found.get("err_id")),
            result=found.get("result"),
        )

    def escaped_for(self, encoding: str) -> Self:
        """Return the run with all characters escaped that `encoding` does not have.

        Done before the layout, so that names are measured as they are printed.
        """
        return replace(
            self,
            flow_name=encodable(self.flow_name, encoding),
            tag=None if self.tag is None else encodable(self.tag, encoding),
            tasks=tuple(replace(task, name=encodable(task.name, encoding)) for task in self.tasks),
        )

    def now(self, clock: float) -> float:
        """Return the current time of the server; `clock` is the time of this machine.

        The clock of this machine may be wrong. While a run is running, its heartbeats are a better
        source.
        """
        age = clock - self.server_time
        is_plausible = age <= _MAX_HEARTBEAT_AGE_SEC or self.status == "PENDING"
        return clock if age >= 0 and is_plausible else self.server_time


def _tasks(found: Mapping[str, Any]) -> Iterator[DisplayedTask]:
    states, records = found.get("tasks"), found.get("task_records")
    states = states if isinstance(states, Mapping) else {}
    records = records if isinstance(records, Mapping) else {}
    for name in {**states, **records}:
        record = records.get(name)
        record = record if isinstance(record, Mapping) else {}
        started, ended = _number(record.get("started_at")), _number(record.get("ended_at"))
        took = _number(record.get("duration_ms"))
        if took is not None:
            took /= 1000
        elif started is not None and ended is not None:
            took = ended - started
        yield DisplayedTask(
            name=str(name),
            state=str(states.get(name) or record.get("state") or "-"),
            started_at=started,
            duration_sec=took,
            error=_text(record.get("error")),
        )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
