"""Stores API keys; every change is a compare-and-set."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.earlier_keys import EarlierKeyRecord, is_earlier_key_id
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
from pyoco_protocol.subjects import Names, earlier_api_key

Record = TypeVar("Record", ApiKeyRecord, EarlierKeyRecord)

_ID_ATTEMPTS: Final = 3

# Returns the changed fields of a record; none if nothing changes.
_Change = Callable[[Record], dict[str, Any]]


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

    async def revoke(self, key_id: str, *, now: float) -> ApiKeyRecord | EarlierKeyRecord:
        """Revoke a key permanently and return it; a revoked key keeps its time of revocation.

        A key of an earlier server is revoked for that server, which may still be running.
        """

        def revoked(found: ApiKeyRecord | EarlierKeyRecord) -> dict[str, Any]:
            return {} if found.revoked_at is not None else {"revoked_at": now}

        if is_earlier_key_id(key_id):
            return await self._changed(EarlierKeyRecord, key_id, revoked)
        return await self._changed(ApiKeyRecord, key_id, revoked)

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
        if is_earlier_key_id(key_id):
            raise ApiKeyUnchangeableError(
                key_id, "was issued by an earlier server and has no scopes that a new key could get"
            )
        former, _, _ = await self._read(ApiKeyRecord, key_id)
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
            return await self._changed(ApiKeyRecord, key_id, retired), issued
        except BrokerUnavailableError as error:
            raise BrokerUnavailableError(
                f"{error.cause}; API key {successor} is stored, but was not shown"
            ) from error
        except PyocoError:
            # Another command has revoked or rotated the old key meanwhile.
            await self.revoke(successor, now=now)
            raise

    async def _changed(self, kind: type[Record], key_id: str, change: _Change[Record]) -> Record:
        while True:
            record, stored, revision = await self._read(kind, key_id)
            changes = change(record)
            if not changes:
                return record
            # Change the stored JSON, not the parsed record: a newer version may add fields.
            data = json.dumps({**stored, **changes}).encode()
            try:
                await self._bucket.replace(_bucket_key(key_id), data, revision)
            except ConflictError:
                continue
            return record.model_copy(update=changes)

    async def _read(self, kind: type[Record], key_id: str) -> tuple[Record, dict[str, Any], int]:
        found = await self._bucket.read(_bucket_key(key_id))
        if found is None or found.data is None:
            raise ApiKeyNotFoundError(key_id)
        try:
            record = kind.model_validate_json(found.data)
        except ValidationError:
            record = None
        if record is None or record.key_id != key_id:
            raise ApiKeyUnchangeableError(key_id, "has an invalid record; gateways refuse it")
        stored: dict[str, Any] = json.loads(found.data)
        return record, stored, found.revision


def _bucket_key(key_id: str) -> str:
    return earlier_api_key(key_id) if is_earlier_key_id(key_id) else key_id


def _require_rotatable(record: ApiKeyRecord) -> None:
    if record.revoked_at is not None:
        raise ApiKeyUnchangeableError(record.key_id, "is revoked")
    if record.rotated_to is not None:
        raise ApiKeyUnchangeableError(record.key_id, f"was already rotated to {record.rotated_to}")
