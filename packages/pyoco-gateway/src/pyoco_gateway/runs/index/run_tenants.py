"""Whose each run is, also when nothing is left of it to tell."""

from sys import intern

from pyoco_gateway.access.caller import DEFAULT_TENANT
from pyoco_gateway.runs.feed import RunChange
from pyoco_gateway.runs.index.tables import run_key


class RunTenants:
    """Remembers the tenant of every run, where that is wanted; a hundred bytes for each.

    A run that is deleted or expires leaves a mark that says no more than its id. Whom to tell
    of it must be known from before.
    """

    def __init__(self, *, are_wanted: bool) -> None:
        self._are_wanted = are_wanted
        self._owners: dict[int, str] = {}

    def note(self, change: RunChange) -> str | None:
        """Return whose run has changed; None for one that is gone and was not known."""
        if change.outline is not None:
            owner = intern(change.outline.tenant_id or DEFAULT_TENANT)
            if self._are_wanted:
                self._owners[run_key(change.run_id)] = owner
            return owner
        return self._owners.pop(run_key(change.run_id), None) if self._are_wanted else None

    def of(self, run_id: str) -> str | None:
        """Return whose run this is; None where that is not known."""
        return self._owners.get(run_key(run_id)) if self._are_wanted else None

    def forget(self) -> None:
        """Forget all: it is another bucket."""
        self._owners.clear()
