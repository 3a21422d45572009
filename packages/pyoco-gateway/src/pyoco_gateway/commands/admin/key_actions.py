"""The actions of `api-key`, each with its own broker connection."""

from collections.abc import Mapping

import anyio

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.earlier_keys import EarlierKeyRecord
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_store import Issued, KeyStore
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_gateway.commands.admin.session import TIMEOUT_SEC, key_session
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


async def all_keys(environ: Mapping[str, str]) -> list[ApiKeyRecord | EarlierKeyRecord]:
    """Return all keys, also those of an earlier server; an invalid record is logged and omitted."""
    async with key_session(environ) as (broker, names):
        cache = KeyCache(broker, names.auth_bucket)
        with plain_errors():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cache.run)
                await cache.until_ready(TIMEOUT_SEC)
                tasks.cancel_scope.cancel()
        return [*cache.records(), *cache.earlier_records()]


async def revoke_key(
    environ: Mapping[str, str], key_id: str, *, now: float
) -> ApiKeyRecord | EarlierKeyRecord:
    """Revoke a key and return it."""
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
    """Replace a key by a new one; return the old one and the new one."""
    async with key_session(environ) as (broker, names):
        return await KeyStore(broker, names).rotate(
            pepper, key_id, now=now, overlap_sec=overlap_sec, expires_at=expires_at
        )
