"""API keys for tests, and gateways with authentication."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
from pydantic import SecretStr

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, issue_key
from pyoco_protocol.ids import new_run_id
from pyoco_testkit.eventually import eventually

if TYPE_CHECKING:
    from conftest import StartGateway, Store

PEPPER: Final = "pepper-of-the-tests-0123456789"
KEYED: Final = {"PYOCO_HTTP_AUTH_MODE": "api_key", "PYOCO_AUTH_PEPPER": PEPPER}
RUNS: Final = frozenset({KeyScope.RUNS_READ, KeyScope.RUNS_WRITE})


class HeldKey:
    """A key with its stored record."""

    def __init__(self, record: ApiKeyRecord, key: str) -> None:
        self.record = record
        self.key = key

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request with this key."""
        return {"X-API-Key": self.key}


class KeyAdmin:
    """Writes key records directly into the bucket."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    async def issue(
        self,
        *scopes: KeyScope,
        tenant: str = "acme",
        expires_at: float | None = None,
    ) -> HeldKey:
        """Return a new key with these scopes, by default those for reading and writing runs."""
        record, key = issue_key(
            Pepper(SecretStr(PEPPER)),
            tenant_id=tenant,
            now=time.time(),
            scopes=frozenset(scopes) or RUNS,
            expires_at=expires_at,
        )
        await self.put(record)
        return HeldKey(record, key)

    async def put(self, record: ApiKeyRecord) -> None:
        """Write a record."""
        await self._write(record.key_id, record.to_bytes())

    async def change(self, held: HeldKey, **changes: Any) -> None:
        """Rewrite the record of a key with changed fields."""
        await self.put(held.record.model_copy(update=changes))

    async def revoke(self, held: HeldKey) -> None:
        """Revoke a key."""
        await self.change(held, revoked_at=time.time())

    async def delete(self, held: HeldKey) -> None:
        """Delete a key."""
        await self._write(held.record.key_id, b"", {"KV-Operation": "DEL"})

    async def _write(self, key_id: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        # Without compare-and-set: a test is the only writer of its bucket.
        await self._store.js.publish(f"$KV.pyoco_auth.{key_id}", data, headers=headers)


Keyed = tuple[httpx.AsyncClient, KeyAdmin]


@asynccontextmanager
async def keyed_gateway_at(
    start_gateway: "StartGateway", nats_url: str, store: "Store", **environ: str
) -> AsyncGenerator[Keyed]:
    """Yield a gateway that has read its keys, and a writer of keys."""
    key_admin = KeyAdmin(store)
    async with start_gateway(nats_url, wait=False, **KEYED, **environ) as http:
        await has_key_bucket(store)
        first = await key_admin.issue(KeyScope.EXECUTIONS_READ, KeyScope.RUNS_READ)
        await knows(http, first)
        await eventually(lambda: knows_execution_streams(http, first.headers), True)
        yield http, key_admin


async def knows(http: httpx.AsyncClient, held: HeldKey) -> None:
    """Wait until the gateway accepts a key and is connected to the broker."""
    path = f"/runs/{new_run_id()}"
    await status_becomes(http, path, held, httpx.codes.NOT_FOUND)


async def knows_execution_streams(http: httpx.AsyncClient, headers: dict[str, str]) -> bool:
    """Return whether the gateway has found out if it can serve executions."""
    return "not checked" not in (await http.get("/graphs", headers=headers)).text


async def status_becomes(
    http: httpx.AsyncClient, path: str, held: HeldKey, status: int, timeout: float = 10.0
) -> None:
    """Wait until a request with the key is answered with `status`."""

    async def answered() -> int:
        return (await http.get(path, headers=held.headers)).status_code

    await eventually(answered, status, timeout)


async def has_key_bucket(store: "Store") -> None:
    """Wait until the bucket of keys exists."""

    async def streams() -> list[str | None]:
        return [info.config.name for info in await store.js.streams_info()]

    await eventually(streams, lambda names: "KV_pyoco_auth" in names)
