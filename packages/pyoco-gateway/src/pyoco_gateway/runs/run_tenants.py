"""Remembers the tenant of each run, until after the run is deleted."""

from sys import intern

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.tables import run_key


class RunTenants:
    """The tenant of every run, at about a hundred bytes each; empty unless `are_wanted`.

    A deleted or expired run leaves a marker with nothing but its id. The tenant to notify must be
    known from an earlier change.
    """

    def __init__(self, *, are_wanted: bool) -> None:
        self._are_wanted = are_wanted
        self._tenants: dict[int, str] = {}

    def note(self, change: RunChange) -> str | None:
        """Return the tenant of a changed run; None for a deleted run that was not known."""
        if change.outline is not None:
            tenant = intern(change.outline.tenant_id or DEFAULT_TENANT)
            if self._are_wanted:
                self._tenants[run_key(change.run_id)] = tenant
            return tenant
        return self._tenants.pop(run_key(change.run_id), None) if self._are_wanted else None

    def of(self, run_id: str) -> str | None:
        """Return the tenant of a run; None if it is not known."""
        return self._tenants.get(run_key(run_id)) if self._are_wanted else None

    def forget(self) -> None:
        """Forget all runs: the bucket was replaced."""
        self._tenants.clear()
