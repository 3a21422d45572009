"""States and updates of runs, each encoded once for all watchers."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.outline import RunOutline
from pyoco_protocol.jetstream.run_store import StoredRun
from pyoco_protocol.runs.lifecycle import RunStatus
from pyoco_protocol.runs.snapshot import RunSnapshot

# The status and `updated_at` of a run. A heartbeat changes neither.
StateKey = tuple[RunStatus, float]


def state_key(run: RunOutline | RunSnapshot) -> StateKey:
    """Return a key that differs after every change of a run except a heartbeat."""
    return run.status, run.updated_at


@dataclass(slots=True)
class _EncodedOnce:
    _encoded: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    def encoded(self, form: str, encode: Callable[[], bytes]) -> bytes:
        """Return the result of `encode`, which is called once for each `form`."""
        if form not in self._encoded:
            self._encoded[form] = encode()
        return self._encoded[form]


@dataclass(slots=True)
class RunState(_EncodedOnce):
    """A run's record at `revision`; `key` is None if the run was deleted or has expired."""

    run_id: str
    revision: int
    key: StateKey | None = None
    tenant_id: str | None = None
    _data: bytes | None = None
    _snapshot: RunSnapshot | None = None

    @classmethod
    def of_change(cls, change: RunChange) -> "RunState":
        """Return the state after a change; the record is parsed when it is first needed."""
        run = change.outline
        if run is None:
            return cls(change.run_id, change.revision, _data=change.data)
        return cls(change.run_id, change.revision, state_key(run), run.tenant_id, change.data)

    @classmethod
    def of_stored(cls, stored: StoredRun) -> "RunState":
        """Return the state of a record read from the store."""
        run = stored.snapshot
        return cls(run.run_id, stored.revision, state_key(run), run.tenant_id, None, run)

    @property
    def is_gone(self) -> bool:
        """Whether the run was deleted or has expired."""
        return self.key is None

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self.key is not None and self.key[0].is_terminal

    @property
    def snapshot(self) -> RunSnapshot | None:
        """The whole record; None if the run is gone or the record is not a valid snapshot."""
        if self._snapshot is None and self._data is not None:
            with suppress(ValidationError):
                self._snapshot = RunSnapshot.from_bytes(self._data)
            self._data = None
        return self._snapshot


@dataclass(slots=True)
class RunUpdate(_EncodedOnce):
    """A change of a run for list watchers; `outline` is None if the run is gone."""

    run_id: str
    revision: int
    # None if the tenant is not known.
    tenant_id: str | None
    outline: RunOutline | None
    received_at: float
