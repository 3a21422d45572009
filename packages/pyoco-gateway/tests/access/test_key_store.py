"""The key store: keys are created once, and concurrent changes are not lost."""

import json
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from pyoco_gateway.access.caller import KeyScope
from pyoco_gateway.access.key_cache import KeyCache
from pyoco_gateway.access.key_store import Issued, KeyStore
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper
from pyoco_gateway.broker.preparation import Preparation
from pyoco_protocol.jetstream.bucket import Bucket
from pyoco_protocol.jetstream.connection import Broker, open_broker
from pyoco_protocol.jetstream.requests import ask
from pyoco_protocol.problems import (
    ApiKeyNotFoundError,
    ApiKeyUnchangeableError,
    BrokerUnavailableError,
)
from pyoco_protocol.settings import BrokerSettings, TopologySettings
from pyoco_protocol.subjects import Names
from pyoco_protocol.topology import key_topology
from pyoco_testkit.builders import NOW

PEPPER = Pepper(SecretStr("a-pepper-for-tests"))
SCOPES = frozenset({KeyScope.RUNS_READ, KeyScope.OPS})
DAY = 86_400.0


@pytest.fixture
async def keys(broker: Broker) -> KeyStore:
    """Return a store on a new broker."""
    await Preparation(key_topology(TopologySettings()))(broker)
    return KeyStore(broker, Names())


async def issue(keys: KeyStore, **options: Any) -> Issued:
    wanted = {"tenant_id": "acme", "scopes": SCOPES, "name": "nightly", "now": NOW, **options}
    return await keys.issue(PEPPER, **wanted)


async def stored(broker: Broker, key_id: str) -> dict[str, Any]:
    found = await Bucket(broker, Names().auth_bucket).read(key_id)
    assert found is not None
    assert found.data is not None
    fields: dict[str, Any] = json.loads(found.data)
    return fields


async def all_stored(broker: Broker) -> dict[str, ApiKeyRecord]:
    ring = KeyCache(broker, Names().auth_bucket)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ring.run)
        await ring.until_ready(10)
        tasks.cancel_scope.cancel()
    return {each.key_id: each for each in ring.records()}


async def test_the_stored_record_equals_the_returned_one(keys: KeyStore, broker: Broker) -> None:
    issued = await issue(keys, expires_at=NOW + DAY)
    assert await all_stored(broker) == {issued.record.key_id: issued.record}
    assert issued.key not in repr(issued)


async def test_an_existing_key_id_is_not_reused(
    keys: KeyStore, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await issue(keys)
    letters = iter([*first.record.key_id, *"zzzzzzzzzzzz"])
    monkeypatch.setattr("secrets.choice", lambda _: next(letters))
    second = await issue(keys, tenant_id="other")
    assert second.record.key_id == "zzzzzzzzzzzz"
    assert await all_stored(broker) == {each.record.key_id: each.record for each in (first, second)}


async def test_a_second_revocation_keeps_the_time_of_the_first(
    keys: KeyStore, broker: Broker
) -> None:
    key_id = (await issue(keys)).record.key_id
    assert (await keys.revoke(key_id, now=NOW + 1)).revoked_at == NOW + 1
    assert (await keys.revoke(key_id, now=NOW + 2)).revoked_at == NOW + 1
    assert (await stored(broker, key_id))["revoked_at"] == NOW + 1


async def test_unknown_fields_of_a_record_survive_a_change(keys: KeyStore, broker: Broker) -> None:
    """An older command must not remove fields that a newer one wrote."""
    key_id = (await issue(keys)).record.key_id
    bucket = Bucket(broker, Names().auth_bucket)
    found = await bucket.read(key_id)
    assert found is not None
    newer = {
        **(await stored(broker, key_id)),
        "colour": "blue",
        "scopes": ["ops", "graphs:paint"],
    }
    await bucket.replace(key_id, json.dumps(newer).encode(), found.revision)
    await keys.revoke(key_id, now=NOW)
    assert await stored(broker, key_id) == {**newer, "revoked_at": NOW}


async def test_a_rotated_key_is_valid_for_the_overlap_and_its_successor_at_once(
    keys: KeyStore, broker: Broker
) -> None:
    old = (await issue(keys)).record
    former, issued = await keys.rotate(PEPPER, old.key_id, now=NOW + DAY, overlap_sec=3600)
    new = issued.record
    assert (new.tenant_id, new.scopes, new.name) == (old.tenant_id, old.scopes, old.name)
    assert (new.created_at, new.expires_at) == (NOW + DAY, None)
    assert PEPPER.matches(new, issued.key.rpartition(new.key_id)[2][1:])
    assert former.rotated_to == new.key_id
    found = await all_stored(broker)
    assert found == {old.key_id: former, new.key_id: new}
    for now, works in [(NOW + DAY + 3599, (True, True)), (NOW + DAY + 3600, (False, True))]:
        assert tuple(found[key].is_valid_at(now) for key in (old.key_id, new.key_id)) == works


async def test_a_rotation_extends_no_key_and_the_new_key_gets_the_same_lifetime(
    keys: KeyStore,
) -> None:
    old = (await issue(keys, expires_at=NOW + 30 * DAY)).record
    former, issued = await keys.rotate(
        PEPPER, old.key_id, now=NOW + 29.5 * DAY, overlap_sec=7 * DAY
    )
    assert former.expires_at == NOW + 30 * DAY
    assert issued.record.expires_at == NOW + 59.5 * DAY
    _, chosen = await keys.rotate(
        PEPPER, issued.record.key_id, now=NOW, overlap_sec=0, expires_at=NOW + 1
    )
    assert chosen.record.expires_at == NOW + 1


async def test_a_refused_rotation_names_the_reason_and_stores_no_key(
    keys: KeyStore, broker: Broker
) -> None:
    revoked, rotated = [(await issue(keys)).record.key_id for _ in range(2)]
    await keys.revoke(revoked, now=NOW)
    former, _ = await keys.rotate(PEPPER, rotated, now=NOW, overlap_sec=60)
    before = await all_stored(broker)
    with pytest.raises(ApiKeyUnchangeableError, match=f"{revoked} is revoked"):
        await keys.rotate(PEPPER, revoked, now=NOW, overlap_sec=60)
    with pytest.raises(
        ApiKeyUnchangeableError, match=f"was already rotated to {former.rotated_to}"
    ):
        await keys.rotate(PEPPER, rotated, now=NOW, overlap_sec=60)
    with pytest.raises(ApiKeyNotFoundError, match="no API key has the id aaaaaaaaaaaa"):
        await keys.rotate(PEPPER, "aaaaaaaaaaaa", now=NOW, overlap_sec=60)
    assert await all_stored(broker) == before


async def test_a_damaged_record_is_reported_and_not_overwritten(
    keys: KeyStore, broker: Broker
) -> None:
    bucket = Bucket(broker, Names().auth_bucket)
    for number, value in enumerate([b"", b"[]", b"\xff", (await issue(keys)).record.to_bytes()]):
        key_id = f"damaged{number}aaaa"
        revision = await bucket.create(key_id, value)
        with pytest.raises(ApiKeyUnchangeableError, match=key_id):
            await keys.revoke(key_id, now=NOW)
        found = await bucket.read(key_id)
        assert found is not None
        assert (found.data, found.revision) == (value, revision)


async def test_a_deleted_key_is_not_found(keys: KeyStore, broker: Broker) -> None:
    key_id = (await issue(keys)).record.key_id
    bucket = Bucket(broker, Names().auth_bucket)
    found = await bucket.read(key_id)
    assert found is not None
    await bucket.delete(key_id, found.revision)
    with pytest.raises(ApiKeyNotFoundError):
        await keys.revoke(key_id, now=NOW)


async def test_concurrent_revocations_and_rotations_are_not_lost(
    keys: KeyStore, broker: Broker
) -> None:
    """The revocation always holds, and at most one rotation succeeds."""
    outcomes = set()
    # The revocation happens before, between and after the steps of the rotations.
    for pause in [*(0.0003 * step for step in range(30)), 0.5]:
        key_id = (await issue(keys)).record.key_id
        before = set(await all_stored(broker))
        made, refused = await raced(keys, key_id, pause)
        found = await all_stored(broker)
        assert found[key_id].revoked_at == NOW
        assert len(made) <= 1
        assert len(made) + len(refused) == 2
        assert found[key_id].rotated_to == (made[0] if made else None)
        opened = {each for each in found.keys() - before if found[each].is_valid_at(NOW)}
        assert opened == set(made)
        outcomes.add(len(made))
    assert outcomes == {0, 1}


async def raced(keys: KeyStore, key_id: str, pause: float) -> tuple[list[str], list[str]]:
    """Rotate a key twice and revoke it; return its successors and the errors."""
    made: list[str] = []
    refused: list[str] = []

    async def rotate() -> None:
        try:
            former, issued = await keys.rotate(PEPPER, key_id, now=NOW, overlap_sec=60)
        except ApiKeyUnchangeableError as error:
            refused.append(str(error))
        else:
            assert former.rotated_to == issued.record.key_id
            made.append(issued.record.key_id)

    async def revoke() -> None:
        await anyio.sleep(pause)
        await keys.revoke(key_id, now=NOW)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rotate)
        tasks.start_soon(revoke)
        tasks.start_soon(rotate)
    return made, refused


async def test_an_unknown_outcome_names_the_key_that_may_be_stored(
    keys: KeyStore, broker_link: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, address = broker_link
    monkeypatch.setattr(ask, "__kwdefaults__", {**(ask.__kwdefaults__ or {}), "timeout_sec": 0.5})
    async with open_broker(BrokerSettings(nats_url=address), name="tests") as cut_off:
        await cut_off.wait_until_up()
        far = KeyStore(cut_off, Names())
        link.lose_answers = ("$KV.",)
        with pytest.raises(BrokerUnavailableError, match="may be stored") as unknown:
            await issue(far)
        (key_id,) = await all_stored(broker)
        assert key_id in str(unknown.value)
        # The new key is stored, then the broker stops answering.
        link.lose_answers = ()
        link.swallow, link.only_with = ("$KV.",), b"rotated_to"
        with pytest.raises(BrokerUnavailableError, match="but was not shown") as cut:
            await far.rotate(PEPPER, key_id, now=NOW, overlap_sec=60)
        (successor,) = set(await all_stored(broker)) - {key_id}
        assert successor in str(cut.value)
        assert (await all_stored(broker))[key_id].is_valid_at(NOW + 10 * DAY)
