"""Streams end with the keys they were opened with."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from key_admin import KEYED, HeldKey, KeyAdmin, Keyed, keyed_gateway_at, knows, status_becomes
from pyoco_testkit.builders import NOW, snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from sse_client import Stream, stalled_reader

if TYPE_CHECKING:
    from conftest import StartGateway, Store

RUN = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
STREAMS = [f"/runs/{RUN}/watch", "/runs/watch", f"/runs/{RUN}/logs?follow=1"]
# Documented limit from the revocation to the end of the stream.
PROMISED_SEC = 2.0
ACME: dict[str, Any] = {"tenant_id": "acme"}
LARGE = {"text": "x" * 65_536}


@pytest.fixture(autouse=True)
async def _run(store: "Store", keyed: Keyed) -> None:
    """Return a run of the keys' tenant."""
    run = snapshot(run_id=RUN, status="RUNNING", **ACME)
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", run.to_bytes())


@asynccontextmanager
async def opened(http: httpx.AsyncClient, path: str, held: HeldKey) -> AsyncGenerator[Stream]:
    """Open a stream and read its first event."""
    await knows(http, held)
    async with http.stream("GET", path, headers=held.headers) as response:
        assert response.status_code == httpx.codes.OK, await response.aread()
        stream = Stream(response)
        await stream.next()
        yield stream


async def ended_for_the_key(stream: Stream, since: float) -> None:
    """Check that the stream ends in time and names the reason."""
    with anyio.fail_after(10):
        last = (await stream.rest())[-1]
    assert time.monotonic() - since < PROMISED_SEC
    assert (last.name, last.data["reason"]) == ("goodbye", "api_key_invalid")


async def _deleted(key_admin: KeyAdmin, held: HeldKey) -> None:
    await key_admin.delete(held)


async def _narrowed(key_admin: KeyAdmin, held: HeldKey) -> None:
    await key_admin.change(held, scopes=frozenset())


async def _of_another_tenant(key_admin: KeyAdmin, held: HeldKey) -> None:
    await key_admin.change(held, tenant_id="globex")


@pytest.mark.parametrize("path", STREAMS)
async def test_an_open_stream_ends_when_its_key_is_revoked(keyed: Keyed, path: str) -> None:
    http, key_admin = keyed
    held = await key_admin.issue()
    async with opened(http, path, held) as stream:
        since = time.monotonic()
        await key_admin.revoke(held)

        await ended_for_the_key(stream, since)


@pytest.mark.parametrize("change", [_deleted, _narrowed, _of_another_tenant])
async def test_an_open_stream_ends_when_its_key_changes(
    keyed: Keyed, change: Callable[[KeyAdmin, HeldKey], Awaitable[None]]
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue()
    async with opened(http, STREAMS[0], held) as stream:
        since = time.monotonic()
        await change(key_admin, held)

        await ended_for_the_key(stream, since)


async def test_streams_continue_when_another_key_or_only_the_name_changes(keyed: Keyed) -> None:
    http, key_admin = keyed
    gone, other = await key_admin.issue(), await key_admin.issue()
    async with opened(http, STREAMS[1], other) as stays, opened(http, STREAMS[1], gone) as stream:
        since = time.monotonic()
        await key_admin.change(other, name="another name")
        await key_admin.revoke(gone)
        await ended_for_the_key(stream, since)

        assert (await stays.next("heartbeat")).name == "heartbeat"


async def test_an_open_stream_ends_when_its_key_expires(keyed: Keyed) -> None:
    http, key_admin = keyed
    held = await key_admin.issue(expires_at=time.time() + 2.0)
    async with opened(http, STREAMS[0], held) as stream:
        expires_in = (held.record.expires_at or 0) - time.time()

        await ended_for_the_key(stream, time.monotonic() + expires_in)
        assert time.time() >= (held.record.expires_at or 0)
    assert (await http.get("/runs", headers=held.headers)).status_code == 403


async def test_a_rotated_key_and_its_successor_both_work_until_the_old_one_expires(
    keyed: Keyed,
) -> None:
    """Rotation issues a new key and sets an expiry for the old one."""
    http, key_admin = keyed
    former, successor = await key_admin.issue(), await key_admin.issue()
    async with (
        opened(http, STREAMS[0], former) as old_stream,
        opened(http, STREAMS[0], successor) as new_stream,
    ):
        ends_at = time.time() + 1.5
        await key_admin.change(former, expires_at=ends_at, rotated_to=successor.record.key_id)
        since = time.monotonic() + 1.5
        both = [
            (await http.get(f"/runs/{RUN}", headers=held.headers)).status_code
            for held in (former, successor)
        ]
        if time.time() < ends_at:
            assert both == [200, 200]

        await ended_for_the_key(old_stream, since)
        assert time.time() >= ends_at
        assert (await new_stream.next("heartbeat")).name == "heartbeat"
        await status_becomes(http, f"/runs/{RUN}", former, 403)
        assert (await http.get(f"/runs/{RUN}", headers=successor.headers)).status_code == 200


async def test_a_stalled_client_is_disconnected_when_its_key_is_revoked(
    keyed: Keyed, store: "Store", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    http, key_admin = keyed
    stalled, other = await key_admin.issue(), await key_admin.issue()
    await knows(http, stalled)
    async with opened(http, STREAMS[0], other) as quick:
        with stalled_reader(str(http.base_url), STREAMS[0], **stalled.headers):
            # More than the kernel buffers, so that the gateway waits for the client.
            for step in range(1, 20):
                run = snapshot(
                    run_id=RUN, status="RUNNING", updated_at=NOW + step, params=LARGE, **ACME
                )
                await store.js.publish(f"$KV.pyoco_runs.{RUN}", run.to_bytes())
                await quick.next("snapshot")
            await key_admin.revoke(stalled)

            # The write timeout is five times as long.
            await eventually(
                lambda: "stalled reader dropped" in caplog.text, True, timeout=PROMISED_SEC
            )


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_requires_a_key(keyed: Keyed, path: str) -> None:
    http, _ = keyed
    missing = await http.get(path)
    assert (missing.status_code, missing.json()["err_id"]) == (401, "ERR-PYOCO-0014")
    wrong = await http.get(path, headers={"X-API-Key": "pyoco_zzzzzzzzzzzz_" + "A" * 43})
    assert (wrong.status_code, wrong.json()["err_id"]) == (403, "ERR-PYOCO-0015")


async def test_streams_are_limited_per_key_over_all_addresses(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        start_gateway, nats_server.url, store, PYOCO_SSE_MAX_STREAMS_PER_KEY="2"
    ) as (http, key_admin):
        held, other = await key_admin.issue(), await key_admin.issue()
        async with opened(http, STREAMS[1], held), opened(http, STREAMS[0], held):
            refused = await http.get(STREAMS[2], headers=held.headers)
            assert (refused.status_code, refused.json()["err_id"]) == (429, "ERR-PYOCO-0104")
            assert refused.headers["Retry-After"] == "5"
            async with opened(http, STREAMS[1], other):
                pass
        async with opened(http, STREAMS[1], held):
            pass


async def test_streams_on_two_gateways_end_with_their_key(
    keyed: Keyed, start_gateway: "StartGateway", nats_server: NatsServer
) -> None:
    http, key_admin = keyed
    held = await key_admin.issue()
    async with (
        start_gateway(nats_server.url, wait=False, **KEYED) as second,
        opened(http, STREAMS[0], held) as here,
        opened(second, STREAMS[0], held) as there,
    ):
        since = time.monotonic()
        await key_admin.revoke(held)

        await ended_for_the_key(here, since)
        await ended_for_the_key(there, since)


async def test_a_stream_survives_a_broker_outage_and_ends_with_its_key_afterwards(
    keyed: Keyed, nats_server: NatsServer, store: "Store"
) -> None:
    """During the outage no key can be revoked, and only heartbeats are sent."""
    http, key_admin = keyed
    held = await key_admin.issue()
    async with opened(http, STREAMS[0], held) as stream:
        await nats_server.stop()
        await status_becomes(http, "/nothing", held, 503)
        assert (await stream.next()).name == "heartbeat"
        await nats_server.start()
        await knows(http, held)
        run = snapshot(run_id=RUN, status="RUNNING", updated_at=time.time(), **ACME)
        await store.js.publish(f"$KV.pyoco_runs.{RUN}", run.to_bytes())
        assert (await stream.next("snapshot")).name == "snapshot"

        since = time.monotonic()
        await key_admin.revoke(held)
        await ended_for_the_key(stream, since)
