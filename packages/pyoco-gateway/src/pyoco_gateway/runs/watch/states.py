"""What is told of a run: made once for each change, shared by all who hear of it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.jetstream.run_store import StoredRun
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

# What tells a change from a heartbeat: the status, and when the run last changed.
Mark = tuple[RunStatus, float]


def mark_of(run: RunOutline | RunSnapshot) -> Mark:
    """Return what differs after each change of a run, and does not after a heartbeat."""
    return run.status, run.updated_at


@dataclass(slots=True)
class _Shared:
    _encoded: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    def encoded(self, form: str, encode: Callable[[], bytes]) -> bytes:
        """Return what `encode` makes of this, made once for each `form`."""
        if form not in self._encoded:
            self._encoded[form] = encode()
        return self._encoded[form]


@dataclass(slots=True)
class RunState(_Shared):
    """A run's record as it stands from `revision` on; without a mark for one that is gone."""

    run_id: str
    revision: int
    mark: Mark | None = None
    tenant_id: str | None = None
    _data: bytes | None = None
    _snapshot: RunSnapshot | None = None

    @classmethod
    def of_change(cls, change: RunChange) -> "RunState":
        """Return the state after a change; the record is read when somebody wants to see it."""
        run = change.outline
        if run is None:
            return cls(change.run_id, change.revision, _data=change.data)
        return cls(change.run_id, change.revision, mark_of(run), run.tenant_id, change.data)

    @classmethod
    def of_stored(cls, stored: StoredRun) -> "RunState":
        """Return the state that was read."""
        run = stored.snapshot
        return cls(run.run_id, stored.revision, mark_of(run), run.tenant_id, None, run)

    @property
    def is_gone(self) -> bool:
        """Whether the run was deleted or has expired."""
        return self.mark is None

    @property
    def is_terminal(self) -> bool:
        """Whether nothing changes any more."""
        return self.mark is not None and self.mark[0].is_terminal

    @property
    def snapshot(self) -> RunSnapshot | None:
        """The whole record; None for one that is gone, or of somebody else's making."""
        if self._snapshot is None and self._data is not None:
            with suppress(ValidationError):
                self._snapshot = RunSnapshot.from_bytes(self._data)
            self._data = None
        return self._snapshot


@dataclass(slots=True)
class RunNews(_Shared):
    """That a run has changed, without its whole record; no outline for one that is gone."""

    run_id: str
    revision: int
    # The tenant whose it is, or was; None where that is not known.
    owner: str | None
    outline: RunOutline | None
    told_at: float
