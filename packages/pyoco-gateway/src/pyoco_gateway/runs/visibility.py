"""Runs as their callers may see them: one of another tenant is not there."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_gateway.access.caller import Caller
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.ids import is_run_id
from pyoco_protocol.jetstream.run_store import RunStore, StoredRun
from pyoco_protocol.problems import RunNotFoundError, SnapshotUnreadableError


async def read_own(store: RunStore, run_id: str, caller: Caller) -> StoredRun:
    """Return the latest record of a caller's run; raise RunNotFoundError where it has none.

    What cannot be an id is not looked up: as a subject it could mean every run, or break the
    request.
    """
    with hiding_unreadable(caller, run_id):
        return own(await store.read(run_id) if is_run_id(run_id) else None, run_id, caller)


def own(stored: StoredRun | None, run_id: str, caller: Caller) -> StoredRun:
    """Return what was found, if it is the caller's; else raise what finding nothing raises."""
    if stored is None or not caller.owns(stored.snapshot.tenant_id):
        raise RunNotFoundError(shortened(run_id))
    return stored


@contextmanager
def hiding_unreadable(caller: Caller, run_id: str) -> Iterator[None]:
    """Let a record that cannot be read be none for a tenant: nobody can say whose it is."""
    try:
        yield
    except SnapshotUnreadableError:
        if caller.tenant_id is None:
            raise
        raise RunNotFoundError(shortened(run_id)) from None
