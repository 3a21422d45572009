"""How long a caller may be told things."""

from contextlib import ExitStack
from typing import Any, cast

import anyio
import pytest
from pydantic import SecretStr
from starlette.types import Message

from pyoco_gateway.access.caller import ANONYMOUS, UNRESTRICTED, Caller, set_caller
from pyoco_gateway.access.key_cache import KeyCache, OnKeyChanged
from pyoco_gateway.access.key_check import caller_by
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, issue_key
from pyoco_gateway.access.leases import KeyLeases, lease_of
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.http.provided import lifespan_state
from pyoco_gateway.streams import event_stream
from pyoco_gateway.streams.event_stream import EventStream
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_testkit.eventually import eventually

NOW = 1_800_000_000.0


class Ring:
    """The keys, as a test would have them."""

    def __init__(self) -> None:
        self.is_ready = True
        self.records: dict[str, ApiKeyRecord] = {}
        self.changed: list[OnKeyChanged] = []

    def find(self, key_id: str) -> ApiKeyRecord | None:
        return self.records.get(key_id)

    def subscribe(self, callback: OnKeyChanged) -> None:
        self.changed.append(callback)

    def issue(self, expires_at: float | None = None) -> Caller:
        pepper = Pepper(SecretStr("pepper-of-the-tests"))
        record, _ = issue_key(pepper, tenant_id="acme", now=NOW, expires_at=expires_at)
        self.records[record.key_id] = record
        return caller_by(record)


class Clock:
    """A clock that stands until it is moved."""

    now = NOW

    def __call__(self) -> float:
        return self.now


def leases_of(ring: Ring, clock: Clock) -> KeyLeases:
    return KeyLeases(cast(KeyCache, ring), clock=clock)


def scope_of(caller: Caller, leases: KeyLeases) -> dict[str, Any]:
    scope: dict[str, Any] = {"state": lifespan_state([AccessServices(leases=leases)])}
    set_caller(scope, caller)
    return scope


def test_a_lease_is_over_when_its_key_is_and_that_is_told_once() -> None:
    ring, clock = Ring(), Clock()
    leases = leases_of(ring, clock)
    caller, told = ring.issue(expires_at=NOW + 10), []
    with lease_of(leases, caller, lambda: told.append("over")) as lease:
        for _ in range(2):
            leases.look_at(caller.key_id or "")
        assert (lease.is_over, told) == (False, [])
        clock.now += 10
        for _ in range(2):
            leases.look_at(caller.key_id or "")
        assert (lease.is_over, told) == (True, ["over"])
    assert not leases._leases


def test_a_key_that_was_withdrawn_before_the_stream_began_ends_it_at_once() -> None:
    ring, clock = Ring(), Clock()
    leases = leases_of(ring, clock)
    caller = ring.issue()
    ring.records.clear()

    with lease_of(leases, caller, lambda: None) as lease:
        assert lease.is_over


def test_while_the_keys_are_read_anew_none_is_taken_for_gone_and_nothing_may_be_told() -> None:
    ring, clock = Ring(), Clock()
    leases = leases_of(ring, clock)
    caller = ring.issue()
    with lease_of(leases, caller, lambda: None) as lease:
        known, ring.records, ring.is_ready = ring.records, {}, False
        leases.look_at(caller.key_id or "")
        assert not lease.is_over
        assert not lease.is_sure
        ring.records, ring.is_ready = known, True
        leases.look_at(caller.key_id or "")
        assert not lease.is_over
        assert lease.is_sure


def test_where_no_keys_are_asked_for_nothing_ends() -> None:
    with lease_of(None, UNRESTRICTED, lambda: None) as lease:
        assert lease.is_sure
        assert not lease.is_over


class OneEvent:
    """A source that has one thing to tell, and nothing to wait for."""

    is_over = False

    def __init__(self) -> None:
        self.wakeup = Wakeup()
        self._events = [b"event: snapshot\n\n"]

    def take(self) -> bytes | None:
        return self._events.pop() if self._events else None

    def heartbeat(self) -> bytes:
        return b"event: heartbeat\n\n"


async def test_a_stream_tells_nothing_while_its_key_is_in_doubt_and_ends_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.02)
    ring, clock = Ring(), Clock()
    leases = leases_of(ring, clock)
    caller = ring.issue()
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    def told(event: bytes) -> int:
        return b"".join(sent).count(b"event: " + event)

    stream = EventStream(OneEvent(), 60, ExitStack())
    ring.is_ready = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream, scope_of(caller, leases), receive, send)
        await eventually(lambda: told(b"heartbeat") > 3, True)
        assert not told(b"snapshot")
        ring.is_ready = True
        await eventually(lambda: told(b"snapshot"), 1)
        ring.records.clear()
        for changed in ring.changed:
            changed(caller.key_id or "")
    assert told(b"goodbye") == 1
    assert b'"reason":"api_key_invalid"' in b"".join(sent)


def test_nobody_owns_nothing_and_may_do_nothing() -> None:
    assert not ANONYMOUS.owns(None)
    assert not ANONYMOUS.owns("")
    assert not ANONYMOUS.owns("acme")
    assert not any(ANONYMOUS.may(scope) for scope in UNRESTRICTED.scopes)
