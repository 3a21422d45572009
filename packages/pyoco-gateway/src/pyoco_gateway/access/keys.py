"""API keys: format, stored record and verification.

A key has the form `pyoco_<key id>_<secret>`. The key id is not secret. The secret is not stored;
the record holds its HMAC under a pepper that is not in the bucket, or its SHA-256 if there is no
pepper. A secret has 256 random bits, so its hash cannot be reversed without a pepper either.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    SecretStr,
    StringConstraints,
    field_serializer,
    model_validator,
)

from pyoco_gateway.access.caller import KeyScope
from pyoco_protocol.ids import MAX_TAG_CHARS, TAG_PATTERN, Label, UnixSeconds
from pyoco_protocol.problems import SettingProblem, SettingsError
from pyoco_protocol.settings import HttpAuthSettings
from pyoco_protocol.wire import WireModel

_ALL_SCOPES: Final = frozenset(KeyScope)
DEFAULT_SCOPES: Final = _ALL_SCOPES - {KeyScope.ADMIN}

# Without `_`, the separator of a key, and without `-`, which would make an id look like an option.
_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ID_CHARS: Final = 12
_SECRET_BYTES: Final = 32
_SECRET_CHARS: Final = 43
_KEY_ID: Final = rf"[a-z2-7]{{{_ID_CHARS}}}"
_KEY: Final = re.compile(rf"pyoco_({_KEY_ID})_([A-Za-z0-9_-]{{{_SECRET_CHARS}}})")
MAX_KEY_CHARS: Final = len("pyoco__") + _ID_CHARS + _SECRET_CHARS

MIN_PEPPER_CHARS: Final = 16
# The example in the documentation is public.
_KNOWN_PEPPER: Final = str((HttpAuthSettings.model_fields["auth_pepper"].examples or [""])[0])
_NEW_PEPPER: Final = "$(openssl rand -hex 32)"
_PEPPER_ID_CHARS: Final = 8
# Compared with the secret of an unknown key id.
_DUMMY_HASH: Final = "0" * 64


def _known_scopes(value: Any) -> Any:
    # Ignore scopes of newer versions; the other scopes of the key still work.
    if not isinstance(value, list):
        return value
    return [each for each in value if not isinstance(each, str) or each in _ALL_SCOPES]


TenantId = Annotated[str, StringConstraints(pattern=TAG_PATTERN, max_length=MAX_TAG_CHARS)]
KeyId = Annotated[str, StringConstraints(pattern=rf"^{_KEY_ID}$")]
_Scopes = Annotated[frozenset[KeyScope], BeforeValidator(_known_scopes)]


class HashKind(StrEnum):
    """How the secret of a key is hashed; a secret is compared with this kind of hash only."""

    HMAC = "hmac-sha256"
    SHA256 = "sha256"


class ApiKeyRecord(WireModel):
    """The stored record of a key; its bucket key is the key id."""

    key_id: KeyId
    tenant_id: TenantId
    name: Label | None = None
    scopes: _Scopes
    secret_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    # Records from before this field have a pepper.
    hash_kind: HashKind = HashKind.HMAC
    # None for a hash without a pepper.
    pepper_id: str | None = None
    created_at: UnixSeconds
    expires_at: UnixSeconds | None = None
    revoked_at: UnixSeconds | None = None
    # The id of its successor.
    rotated_to: KeyId | None = None

    def is_valid_at(self, now: float) -> bool:
        """Return whether the key is neither revoked nor expired at `now`."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def to_bytes(self) -> bytes:
        """Return the stored form, without fields that are None."""
        return self.model_dump_json(exclude_none=True).encode()

    @model_validator(mode="after")
    def _pepper_fits_kind(self) -> Self:
        if (self.hash_kind is HashKind.HMAC) != (self.pepper_id is not None):
            raise ValueError("pepper_id belongs to an HMAC, and only to an HMAC")
        return self

    @field_serializer("scopes")
    def _in_order(self, scopes: frozenset[KeyScope]) -> list[str]:
        return sorted(scopes)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key from a request, parsed but not verified."""

    key_id: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parsed key; None if the text does not have the form of a key."""
        if len(text) != MAX_KEY_CHARS:
            return None
        parts = _KEY.fullmatch(text)
        return None if parts is None else cls(parts[1], parts[2])


class Pepper:
    """The secret under which key secrets are hashed; None if the operator has not set one."""

    def __init__(self, secret: SecretStr | None) -> None:
        self._secret = None if secret is None else secret.get_secret_value().encode()
        # Identifies the pepper without revealing it.
        self.id: Final = (
            None if secret is None else self._hmac("pyoco pepper id")[:_PEPPER_ID_CHARS]
        )

    @classmethod
    def of(cls, auth: HttpAuthSettings) -> Self:
        """Return the pepper in the settings; raise SettingsError if it is weak."""
        secret = auth.auth_pepper
        if secret is None:
            return cls(None)
        text = secret.get_secret_value()
        if len(text) < MIN_PEPPER_CHARS:
            raise _pepper_problem(
                f"is too short: {len(text)} characters; at least {MIN_PEPPER_CHARS} are required"
            )
        if hmac.compare_digest(text.encode(), _KNOWN_PEPPER.encode()):
            raise _pepper_problem("is the public example from the documentation")
        return cls(secret)

    @property
    def hash_kind(self) -> HashKind:
        """How the secrets of new keys are hashed."""
        return HashKind.SHA256 if self._secret is None else HashKind.HMAC

    def hash(self, secret: str) -> str:
        """Return the hash of a new key's secret, of the kind `hash_kind`."""
        return _sha256(secret) if self._secret is None else self._hmac(secret)

    def fits(self, record: ApiKeyRecord) -> bool:
        """Return whether the secret of this key can be checked: with this pepper, or without."""
        return record.hash_kind is HashKind.SHA256 or record.pepper_id == self.id

    def matches(self, record: ApiKeyRecord | None, secret: str) -> bool:
        """Return whether `secret` is the key's; False if `record` is None.

        Takes equally long in all cases, so that response times do not reveal which key ids exist:
        both hashes are made, and one of them is compared.
        """
        peppered, plain = self._hmac(secret), _sha256(secret)
        if record is None:
            hmac.compare_digest(peppered, _DUMMY_HASH)
            return False
        given = plain if record.hash_kind is HashKind.SHA256 else peppered
        is_same = hmac.compare_digest(given, record.secret_hash)
        return is_same and self.fits(record)

    def _hmac(self, text: str) -> str:
        # Without a pepper the result only takes the time: `fits` refuses the record.
        return hmac.digest(self._secret or b"", text.encode(), "sha256").hex()


def issue_key(
    pepper: Pepper,
    *,
    tenant_id: str,
    now: float,
    scopes: frozenset[KeyScope] = DEFAULT_SCOPES,
    name: str | None = None,
    expires_at: float | None = None,
) -> tuple[ApiKeyRecord, str]:
    """Return the record of a new key, and the key itself, which is shown once and not stored."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARS))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    record = ApiKeyRecord(
        key_id=key_id,
        tenant_id=tenant_id,
        name=name,
        scopes=scopes,
        secret_hash=pepper.hash(secret),
        hash_kind=pepper.hash_kind,
        pepper_id=pepper.id,
        created_at=now,
        expires_at=expires_at,
    )
    return record, f"pyoco_{key_id}_{secret}"


def is_key_id(text: str) -> bool:
    """Return whether `text` has the form of a key id."""
    return re.fullmatch(_KEY_ID, text) is not None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pepper_problem(what: str) -> SettingsError:
    return SettingsError([SettingProblem("PYOCO_AUTH_PEPPER", what, _NEW_PEPPER)])
