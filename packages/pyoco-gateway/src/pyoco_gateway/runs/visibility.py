"""Tenant checks on runs: another tenant's run answers 404, exactly like an unknown id."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import RunNotFoundError, SnapshotUnreadableError


async def read_own(store: RunStore, run_id: str, caller: Caller) -> StoredRun:
    """Return the latest record of the caller's run; raise RunNotFoundError if there is none.

    An invalid id is not looked up: in a NATS subject it could match every run or break the
    request.
    """
    with hiding_unreadable(caller, run_id):
        return require_own(await store.read(run_id) if is_run_id(run_id) else None, run_id, caller)


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
