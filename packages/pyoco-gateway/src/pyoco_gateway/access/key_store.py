"""Stores API keys; every change is a compare-and-set."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, issue_key
from pyoco_protocol.jetstream.bucket import Bucket, ConflictError
from pyoco_protocol.jetstream.connection import Broker
from pyoco_protocol.jetstream.requests import UnknownOutcomeError
from pyoco_protocol.problems import (
    ApiKeyNotFoundError,
    ApiKeyUnchangeableError,
    BrokerUnavailableError,
    PyocoError,
)
from pyoco_protocol.subjects import Names

_ID_ATTEMPTS: Final = 3

# Returns the changed fields of a record; none if nothing changes.
_Change = Callable[[ApiKeyRecord], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Issued:
    """A new key: its stored record, and the key itself, which is not stored."""

    record: ApiKeyRecord
    key: str = field(repr=False)


class KeyStore:
    """The bucket of keys, for issuing, revoking and rotating keys."""

    def __init__(self, broker: Broker, names: Names) -> None:
        self._bucket = Bucket(broker, names.auth_bucket)

    async def issue(
        self,
        pepper: Pepper,
        *,
        tenant_id: str,
        scopes: frozenset[KeyScope],
        now: float,
        name: str | None = None,
        expires_at: float | None = None,
    ) -> Issued:
        """Store a new key and return it."""
        for _ in range(_ID_ATTEMPTS):
            record, key = issue_key(
                pepper,
                tenant_id=tenant_id,
                scopes=scopes,
                now=now,
                name=name,
                expires_at=expires_at,
            )
            try:
                await self._bucket.create(record.key_id, record.to_bytes())
            except ConflictError:
                # Another key has the same random id.
                continue
            except UnknownOutcomeError as error:
                raise BrokerUnavailableError(
                    f"{error.cause}; API key {record.key_id} may be stored, but was not shown"
                ) from error
            return Issued(record, key)
        raise BrokerUnavailableError("no free key id was found")

    async def revoke(self, key_id: str, *, now: float) -> ApiKeyRecord:
        """Revoke a key permanently and return it; a revoked key keeps its time of revocation."""
        return await self._changed(
            key_id, lambda found: {} if found.revoked_at is not None else {"revoked_at": now}
        )

    async def rotate(
        self,
        pepper: Pepper,
        key_id: str,
        *,
        now: float,
        overlap_sec: float,
        expires_at: float | None = None,
    ) -> tuple[ApiKeyRecord, Issued]:
        """Issue a successor of a key, which stays valid for `overlap_sec`; return both.

        The new key gets the lifetime of the old one, unless `expires_at` is given.
        """
        former, _, _ = await self._read(key_id)
        _require_rotatable(former)
        if expires_at is None and former.expires_at is not None:
            expires_at = now + (former.expires_at - former.created_at)
        issued = await self.issue(
            pepper,
            tenant_id=former.tenant_id,
            scopes=former.scopes,
            name=former.name,
            now=now,
            expires_at=expires_at,
        )
        successor = issued.record.key_id

        def retired(found: ApiKeyRecord) -> dict[str, Any]:
            _require_rotatable(found)
            ends_at = now + overlap_sec
            if found.expires_at is not None:
                ends_at = min(ends_at, found.expires_at)
            return {"expires_at": ends_at, "rotated_to": successor}

        # The new key is stored first: a crash here leaves an unused key, and the old one works.
        try:
            return await self._changed(key_id, retired), issued
        except BrokerUnavailableError as error:
            raise BrokerUnavailableError(
                f"{error.cause}; API key {successor} is stored, but was not shown"
            ) from error
        except PyocoError:
            # Another command has revoked or rotated the old key meanwhile.
            await self.revoke(successor, now=now)
            raise

    async def _changed(self, key_id: str, change: _Change) -> ApiKeyRecord:
        while True:
            record, stored, revision = await self._read(key_id)
            changes = change(record)
            if not changes:
                return record
            # Change the stored JSON, not the parsed record: a newer version may add fields.
            data = json.dumps({**stored, **changes}).encode()
            try:
                await self._bucket.replace(key_id, data, revision)
            except ConflictError:
                continue
            return record.model_copy(update=changes)

    async def _read(self, key_id: str) -> tuple[ApiKeyRecord, dict[str, Any], int]:
        found = await self._bucket.read(key_id)
        if found is None or found.data is None:
            raise ApiKeyNotFoundError(key_id)
        try:
            record = ApiKeyRecord.model_validate_json(found.data)
        except ValidationError:
            record = None
        if record is None or record.key_id != key_id:
            raise ApiKeyUnchangeableError(key_id, "has an invalid record; gateways refuse it")
        stored: dict[str, Any] = json.loads(found.data)
        return record, stored, found.revision


def _require_rotatable(record: ApiKeyRecord) -> None:
    if record.revoked_at is not None:
        raise ApiKeyUnchangeableError(record.key_id, "is revoked")
    if record.rotated_to is not None:
        raise ApiKeyUnchangeableError(record.key_id, f"was already rotated to {record.rotated_to}")
