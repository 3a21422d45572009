"""Tenant checks on runs: another tenant's run answers 404, exactly like an unknown id."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.ids import is_run_id, new_run_id
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import RunNotFoundError, SnapshotUnreadableError


def _unknown(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class LookupIds:
    """Replaces the ids of other tenants' runs before the broker is asked for a record.

    The broker takes longer to send a record than to report that there is none, and the gateway
    takes longer to parse it. The response time would show that the run exists. `tenant_of` returns
    the tenant of a run from memory; None if the run is not known.
    """

    tenant_of: Callable[[str], str | None] = _unknown
    # The id of no run, so the broker has no record of it.
    unused_id: str = field(default_factory=new_run_id)

    def of(self, run_id: str, caller: Caller) -> str:
        """Return the id to look up for `caller`."""
        tenant_id = self.tenant_of(run_id)
        return run_id if tenant_id is None or caller.owns(tenant_id) else self.unused_id


async def read_own(store: RunStore, ids: LookupIds, run_id: str, caller: Caller) -> StoredRun:
    """Return the latest record of the caller's run; raise RunNotFoundError if there is none.

    An invalid id is not looked up: in a NATS subject it could match every run or break the
    request.
    """
    with hiding_unreadable(caller, run_id):
        found = await store.read(ids.of(run_id, caller)) if is_run_id(run_id) else None
        return require_own(found, run_id, caller)


def require_own(stored: StoredRun | None, run_id: str, caller: Caller) -> StoredRun:
    """Return the record if the caller owns it; raise RunNotFoundError otherwise."""
    if stored is None or not caller.owns(stored.snapshot.tenant_id):
        raise RunNotFoundError(shortened(run_id))
    return stored


@contextmanager
def hiding_unreadable(caller: Caller, run_id: str) -> Iterator[None]:
    """Answer tenants 404 for an unreadable record, because its tenant is unknown."""
    try:
        yield
    except SnapshotUnreadableError:
        if caller.tenant_id is None:
            raise
        raise RunNotFoundError(shortened(run_id)) from None
