"""Permits of streams: a stream ends when its key is no longer valid."""

from contextlib import ExitStack
from typing import Any, cast

import anyio
import pytest
from pydantic import SecretStr
from starlette.types import Message

from pyoco_gateway.access.caller import ANONYMOUS, UNRESTRICTED, Caller, set_caller
from pyoco_gateway.access.key_cache import KeyCache, OnKeyChanged
from pyoco_gateway.access.key_check import caller_with
from pyoco_gateway.access.keys import ApiKeyRecord, Pepper, issue_key
from pyoco_gateway.access.services import AccessServices
from pyoco_gateway.access.stream_permits import StreamPermits, stream_permit_of
from pyoco_gateway.http.provided import lifespan_state
from pyoco_gateway.streams import event_stream
from pyoco_gateway.streams.event_stream import EventStream
from pyoco_gateway.streams.wakeup import Wakeup
from pyoco_testkit.eventually import eventually

NOW = 1_800_000_000.0


class FakeKeyCache:
    """A key cache that the test fills."""

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
        return caller_with(record)


class Clock:
    """A clock that the test sets."""

    now = NOW

    def __call__(self) -> float:
        return self.now


def permits_of(cache: FakeKeyCache, clock: Clock) -> StreamPermits:
    return StreamPermits(cast(KeyCache, cache), clock=clock)


def scope_of(caller: Caller, permits: StreamPermits) -> dict[str, Any]:
    scope: dict[str, Any] = {"state": lifespan_state([AccessServices(stream_permits=permits)])}
    set_caller(scope, caller)
    return scope


def test_a_permit_ends_once_when_its_key_expires() -> None:
    cache, clock = FakeKeyCache(), Clock()
    permits = permits_of(cache, clock)
    caller, ends = cache.issue(expires_at=NOW + 10), []
    with stream_permit_of(permits, caller, lambda: ends.append("ended")) as permit:
        for _ in range(2):
            permits.check(caller.key_id or "")
        assert (permit.has_ended, ends) == (False, [])
        clock.now += 10
        for _ in range(2):
            permits.check(caller.key_id or "")
        assert (permit.has_ended, ends) == (True, ["ended"])
    assert not permits._permits


def test_a_permit_under_a_deleted_key_has_ended_from_the_start() -> None:
    cache, clock = FakeKeyCache(), Clock()
    permits = permits_of(cache, clock)
    caller = cache.issue()
    cache.records.clear()

    with stream_permit_of(permits, caller, lambda: None) as permit:
        assert permit.has_ended


def test_while_the_key_cache_is_rebuilt_permits_are_unknown_but_do_not_end() -> None:
    cache, clock = FakeKeyCache(), Clock()
    permits = permits_of(cache, clock)
    caller = cache.issue()
    with stream_permit_of(permits, caller, lambda: None) as permit:
        known, cache.records, cache.is_ready = cache.records, {}, False
        permits.check(caller.key_id or "")
        assert not permit.has_ended
        assert not permit.is_known
        cache.records, cache.is_ready = known, True
        permits.check(caller.key_id or "")
        assert not permit.has_ended
        assert permit.is_known


def test_without_authentication_permits_do_not_end() -> None:
    with stream_permit_of(None, UNRESTRICTED, lambda: None) as permit:
        assert permit.is_known
        assert not permit.has_ended


class OneEvent:
    """A source with one event."""

    is_over = False

    def __init__(self) -> None:
        self.wakeup = Wakeup()
        self._events = [b"event: snapshot\n\n"]

    def take(self) -> bytes | None:
        return self._events.pop() if self._events else None

    def heartbeat(self) -> bytes:
        return b"event: heartbeat\n\n"


async def test_a_stream_sends_only_heartbeats_while_its_key_is_unknown_and_ends_with_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SEC", 0.02)
    cache, clock = FakeKeyCache(), Clock()
    permits = permits_of(cache, clock)
    caller = cache.issue()
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    def sent_events(event: bytes) -> int:
        return b"".join(sent).count(b"event: " + event)

    stream = EventStream(OneEvent(), 60, ExitStack())
    cache.is_ready = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream, scope_of(caller, permits), receive, send)
        await eventually(lambda: sent_events(b"heartbeat") > 3, True)
        assert not sent_events(b"snapshot")
        cache.is_ready = True
        await eventually(lambda: sent_events(b"snapshot"), 1)
        cache.records.clear()
        for changed in cache.changed:
            changed(caller.key_id or "")
    assert sent_events(b"goodbye") == 1
    assert b'"reason":"api_key_invalid"' in b"".join(sent)


def test_an_anonymous_caller_owns_nothing_and_has_no_scope() -> None:
    assert not ANONYMOUS.owns(None)
    assert not ANONYMOUS.owns("")
    assert not ANONYMOUS.owns("acme")
    assert not any(ANONYMOUS.may(scope) for scope in UNRESTRICTED.scopes)
