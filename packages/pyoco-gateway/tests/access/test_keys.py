"""Format, stored record and verification of API keys."""

import hashlib
import hmac
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from pyoco_gateway.access import keys
from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.keys import (
    MAX_KEY_CHARS,
    ApiKeyRecord,
    HashKind,
    Pepper,
    PresentedKey,
    is_key_id,
    issue_key,
)
from pyoco_protocol.problems import SettingsError
from pyoco_protocol.settings import HttpAuthSettings
from pyoco_testkit.builders import NOW

PEPPER = Pepper(SecretStr("a-pepper-for-tests"))
KEY = "pyoco_a2b3c4d5e6f7_" + 43 * "s"
SCOPES = st.frozensets(st.sampled_from(KeyScope))
TEXTS = st.text(alphabet="pyoco_-aZ29é\n\0 ٣ａ", max_size=80)


def issued(**options: Any) -> tuple[ApiKeyRecord, str]:
    return issue_key(PEPPER, **{"tenant_id": "acme", "now": NOW, **options})


def presented(text: str) -> PresentedKey:
    key = PresentedKey.parse(text)
    assert key is not None
    return key


@given(SCOPES, st.none() | st.floats(NOW, 2 * NOW))
def test_an_issued_key_matches_its_own_record_only(
    scopes: frozenset[KeyScope], expires_at: float | None
) -> None:
    record, text = issued(scopes=scopes, expires_at=expires_at, name="nightly")
    key = presented(text)
    assert key.key_id == record.key_id
    assert PEPPER.matches(record, key.secret)
    other, other_text = issued()
    assert not PEPPER.matches(other, key.secret)
    assert not PEPPER.matches(record, presented(other_text).secret)
    assert not Pepper(SecretStr("another-pepper-for-tests")).matches(record, key.secret)
    assert ApiKeyRecord.model_validate_json(record.to_bytes()) == record


def test_keys_are_unique_with_secrets_of_256_bits() -> None:
    made = [issued()[1] for _ in range(500)]
    parts = [presented(text) for text in made]
    assert len({each.key_id for each in parts}) == len({each.secret for each in parts}) == 500
    assert {len(text) for text in made} == {MAX_KEY_CHARS}
    # 43 characters of base64 hold 258 bits.
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", each.secret) for each in parts)
    assert all(is_key_id(each.key_id) for each in parts)


def test_the_record_does_not_contain_the_secret() -> None:
    record, text = issued()
    stored = record.to_bytes().decode()
    assert presented(text).secret not in stored
    wanted = hmac.digest(b"a-pepper-for-tests", presented(text).secret.encode(), "sha256")
    assert record.secret_hash == wanted.hex()
    assert "a-pepper-for-tests" not in stored


def test_secrets_are_not_in_any_repr() -> None:
    key = presented(KEY)
    assert key.secret not in repr(key)
    assert "a-pepper" not in repr(PEPPER)
    assert "a-pepper" not in repr(PEPPER.id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pyoco__",
        KEY[:-1],
        KEY + "s",
        KEY + "\n",
        " " + KEY[:-1],
        KEY.replace("pyoco", "Pyoco"),
        KEY.replace("a2b3c4d5e6f7", "A2B3C4D5E6F7"),
        KEY.replace("a2b3c4d5e6f7", "a2b3c4d5e6f1"),
        KEY.replace("a2b3c4d5e6f7", "a2b3c4_5e6f7"),
        KEY[:-1] + "=",
        KEY[:-1] + ".",
        # A letter and a digit outside of ASCII.
        KEY[:-1] + "é",
        KEY[:-1] + "٣",
        KEY[:-1] + "\ud800",
        "pyoco_" + 10_000_000 * "a",
    ],
)
def test_other_texts_are_not_parsed_as_keys(text: str) -> None:
    assert PresentedKey.parse(text) is None


@given(TEXTS | st.text() | st.text().map(lambda tail: KEY[:19] + tail))
def test_any_text_is_exactly_a_key_or_is_not_parsed(text: str) -> None:
    key = PresentedKey.parse(text)
    assert key is None or (f"pyoco_{key.key_id}_{key.secret}" == text and text.isascii())
    # Comparing it with a record does not raise either.
    assert key is None or not PEPPER.matches(None, key.secret)


@pytest.mark.parametrize("issued_with", [PEPPER, Pepper(None)], ids=["pepper", "none"])
@pytest.mark.parametrize("checked_with", [PEPPER, Pepper(None)], ids=["pepper", "none"])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("is_right", [True, False])
def test_an_unknown_key_id_takes_as_much_work_as_a_known_one(
    issued_with: Pepper,
    checked_with: Pepper,
    is_known: bool,
    is_right: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hashes and one comparison of equal lengths, so that time does not reveal key ids."""
    record, text = issue_key(issued_with, tenant_id="acme", now=NOW)
    secret = presented(text).secret if is_right else 43 * "x"
    work: list[tuple[object, ...]] = []

    class Counted:
        @staticmethod
        def digest(secret: bytes, message: bytes, name: str) -> bytes:
            work.append(("hmac", len(message), name))
            return hmac.digest(secret, message, name)

        @staticmethod
        def compare_digest(one: str, other: str) -> bool:
            work.append(("compare", len(one), len(other)))
            return hmac.compare_digest(one, other)

        @staticmethod
        def sha256(message: bytes) -> Any:
            work.append(("sha256", len(message)))
            return hashlib.sha256(message)

    monkeypatch.setattr(keys, "hmac", Counted)
    monkeypatch.setattr(keys, "hashlib", Counted)
    fits = issued_with.id in (None, checked_with.id)
    accepted = checked_with.matches(record if is_known else None, secret)
    assert accepted is (is_known and is_right and fits)
    assert work == [("hmac", 43, "sha256"), ("sha256", 43), ("compare", 64, 64)]


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    record, _ = issued(expires_at=NOW + 60)
    assert record.is_valid_at(NOW + 59.9)
    assert not record.is_valid_at(NOW + 60)
    assert issued()[0].is_valid_at(10 * NOW)
    # A revocation holds even if its time is in the future.
    for revoked_at in (0.0, NOW, 10 * NOW):
        assert not record.model_copy(update={"revoked_at": revoked_at}).is_valid_at(NOW)


def test_unknown_fields_and_scopes_of_a_newer_record_are_ignored() -> None:
    record, text = issued()
    newer = {**json.loads(record.to_bytes()), "colour": {"is": "blue"}}
    newer["scopes"] = ["runs:read", "graphs:paint"]
    read = ApiKeyRecord.model_validate_json(json.dumps(newer))
    assert read.scopes == {KeyScope.RUNS_READ}
    assert PEPPER.matches(read, presented(text).secret)


def test_a_record_of_the_first_release_is_read() -> None:
    stored = (
        b'{"key_id":"a2b3c4d5e6f7","tenant_id":"acme","name":"ci","scopes":["ops","runs:read"],'
        b'"secret_hash":"5f0e2c0d94ab23c07c2b3dd0a1c4f6b6bb4eae9cf2ed8a0f0d8be3d3e3b1c0a9",'
        b'"pepper_id":"1a2b3c4d","created_at":1760000000.5,"expires_at":1770000000.0}'
    )
    record = ApiKeyRecord.model_validate_json(stored)
    assert (record.key_id, record.tenant_id, record.name) == ("a2b3c4d5e6f7", "acme", "ci")
    assert record.scopes == {KeyScope.OPS, KeyScope.RUNS_READ}
    assert (record.created_at, record.expires_at) == (1760000000.5, 1770000000.0)
    assert (record.revoked_at, record.rotated_to) == (None, None)
    # It has a pepper, although it does not say so.
    assert record.hash_kind is HashKind.HMAC
    assert json.loads(record.to_bytes()) == {**json.loads(stored), "hash_kind": "hmac-sha256"}


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode())
    | st.dictionaries(
        st.sampled_from(list(ApiKeyRecord.model_fields)),
        st.none() | st.integers() | st.text() | st.lists(st.dictionaries(st.text(), st.text())),
    ).map(lambda changes: json.dumps({**json.loads(issued()[0].to_bytes()), **changes}).encode())
)
def test_any_bytes_are_a_record_or_a_validation_error(data: bytes) -> None:
    try:
        record = ApiKeyRecord.model_validate_json(data)
    except ValidationError:
        return
    assert isinstance(record.is_valid_at(NOW), bool)
    assert PEPPER.matches(record, 43 * "x") is False


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("fifteen-letters", "15 characters; at least 16"),
        ("a-long-random-secret", "the public example from the documentation"),
    ],
)
def test_a_weak_pepper_is_refused(secret: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        Pepper.of(HttpAuthSettings(auth_pepper=SecretStr(secret)))
    assert "PYOCO_AUTH_PEPPER" in str(refused.value)
    assert "openssl rand -hex 32" in str(refused.value)
    assert secret not in str(refused.value)


def test_a_pepper_has_an_id_that_does_not_contain_it() -> None:
    pepper = Pepper.of(HttpAuthSettings(auth_pepper=SecretStr("sixteen-letters!")))
    assert pepper.id == Pepper(SecretStr("sixteen-letters!")).id
    assert pepper.id != PEPPER.id
    assert pepper.id is not None
    assert re.fullmatch(r"[0-9a-f]{8}", pepper.id)


def test_without_a_pepper_the_record_holds_the_sha256_of_the_secret() -> None:
    pepper = Pepper.of(HttpAuthSettings(auth_pepper=None))
    record, text = issue_key(pepper, tenant_id="acme", now=NOW)
    secret = presented(text).secret
    assert record.secret_hash == hashlib.sha256(secret.encode()).hexdigest()
    assert (record.hash_kind, record.pepper_id) == (HashKind.SHA256, None)
    assert b"pepper_id" not in record.to_bytes()
    assert ApiKeyRecord.model_validate_json(record.to_bytes()) == record
    for each in (pepper, PEPPER):
        assert each.matches(record, secret)
        assert not each.matches(record, secret[:-1] + ("A" if secret[-1] != "A" else "B"))


@given(st.sampled_from([None, "a-pepper-for-tests", "another-pepper-for-tests"]))
def test_a_hash_is_not_accepted_as_one_of_the_other_kind(own: str | None) -> None:
    """Neither kind can be presented as the other, with any pepper on the gateway or none."""
    pepper = Pepper(None if own is None else SecretStr(own))
    secret = 43 * "s"
    record, _ = issued()
    peppered = hmac.digest((own or "").encode(), secret.encode(), "sha256").hex()
    plain = hashlib.sha256(secret.encode()).hexdigest()
    as_hmac = {"hash_kind": HashKind.HMAC, "pepper_id": pepper.id or PEPPER.id}
    as_plain = {"hash_kind": HashKind.SHA256, "pepper_id": None}
    for changes, accepted in (
        ({**as_hmac, "secret_hash": peppered}, own is not None),
        ({**as_hmac, "secret_hash": plain}, False),
        ({**as_plain, "secret_hash": peppered}, False),
        ({**as_plain, "secret_hash": plain}, True),
    ):
        stored = json.dumps({**json.loads(record.to_bytes()), **changes})
        read = ApiKeyRecord.model_validate_json(stored)
        assert pepper.matches(read, secret) is accepted


@pytest.mark.parametrize(
    "changes",
    [
        {"hash_kind": "sha256"},
        {"hash_kind": "argon2"},
        {"hash_kind": None},
        {"pepper_id": None},
    ],
)
def test_a_record_with_an_unknown_or_contradictory_hash_is_invalid(changes: dict[str, Any]) -> None:
    stored = {**json.loads(issued()[0].to_bytes()), **changes}
    with pytest.raises(ValidationError):
        ApiKeyRecord.model_validate_json(json.dumps(stored))
