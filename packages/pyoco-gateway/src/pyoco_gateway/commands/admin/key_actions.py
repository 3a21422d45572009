"""What is done to keys, each in a connection of its own."""

from collections.abc import Mapping

import anyio

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_store import Issued, KeyStore
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_gateway.commands.admin.session import PATIENCE_SEC, key_session
from pyoco_protocol.task_groups import plain_errors


async def issue_key(
    environ: Mapping[str, str],
    pepper: Pepper,
    *,
    tenant_id: str,
    scopes: frozenset[KeyScope],
    name: str | None,
    now: float,
    expires_at: float | None,
) -> Issued:
    """Store a new key and return it."""
    async with key_session(environ) as (broker, names):
        return await KeyStore(broker, names).issue(
            pepper, tenant_id=tenant_id, scopes=scopes, name=name, now=now, expires_at=expires_at
        )


async def all_keys(environ: Mapping[str, str]) -> list[ApiKeyRecord]:
    """Return all keys there are; what cannot be read is logged and left out."""
    async with key_session(environ) as (broker, names):
        ring = KeyCache(broker, names.auth_bucket)
        with plain_errors():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ring.run)
                await ring.until_ready(PATIENCE_SEC)
                tasks.cancel_scope.cancel()
        return ring.records()


async def revoke_key(environ: Mapping[str, str], key_id: str, *, now: float) -> ApiKeyRecord:
    """Withdraw a key and return it."""
    async with key_session(environ) as (broker, names):
        return await KeyStore(broker, names).revoke(key_id, now=now)


async def rotate_key(
    environ: Mapping[str, str],
    pepper: Pepper,
    key_id: str,
    *,
    now: float,
    overlap_sec: float,
    expires_at: float | None,
) -> tuple[ApiKeyRecord, Issued]:
    """Put a new key in the place of one; return the old one and the new one."""
    async with key_session(environ) as (broker, names):
        return await KeyStore(broker, names).rotate(
            pepper, key_id, now=now, overlap_sec=overlap_sec, expires_at=expires_at
        )
