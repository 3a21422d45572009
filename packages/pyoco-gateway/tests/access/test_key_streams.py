"""Streams and the keys they were opened with."""

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
# What the gateway promises, from the revocation to the end of the stream.
PROMISED_SEC = 2.0
ACME: dict[str, Any] = {"tenant_id": "acme"}
LARGE = {"text": "x" * 65_536}


@pytest.fixture(autouse=True)
async def _run(store: "Store", keyed: Keyed) -> None:
    """Have a run to watch, of the tenant that the keys belong to."""
    run = snapshot(run_id=RUN, status="RUNNING", **ACME)
    await store.js.publish(f"$KV.pyoco_runs.{RUN}", run.to_bytes())


@asynccontextmanager
async def opened(http: httpx.AsyncClient, path: str, held: HeldKey) -> AsyncGenerator[Stream]:
    """A stream that has begun."""
    await knows(http, held)
    async with http.stream("GET", path, headers=held.headers) as response:
        assert response.status_code == httpx.codes.OK, await response.aread()
        stream = Stream(response)
        await stream.next()
        yield stream


async def ended_for_the_key(stream: Stream, since: float) -> None:
    """Read to the end of the stream: it comes in time and says why."""
    with anyio.fail_after(10):
        last = (await stream.rest())[-1]
    assert time.monotonic() - since < PROMISED_SEC
    assert (last.name, last.data["reason"]) == ("goodbye", "api_key_invalid")


async def _deleted(desk: KeyAdmin, held: HeldKey) -> None:
    await desk.delete(held)


async def _narrowed(desk: KeyAdmin, held: HeldKey) -> None:
    await desk.change(held, scopes=frozenset())


async def _of_another_tenant(desk: KeyAdmin, held: HeldKey) -> None:
    await desk.change(held, tenant_id="globex")


@pytest.mark.parametrize("path", STREAMS)
async def test_an_open_stream_ends_when_its_key_is_revoked(keyed: Keyed, path: str) -> None:
    http, desk = keyed
    held = await desk.issue()
    async with opened(http, path, held) as stream:
        since = time.monotonic()
        await desk.revoke(held)

        await ended_for_the_key(stream, since)


@pytest.mark.parametrize("change", [_deleted, _narrowed, _of_another_tenant])
async def test_an_open_stream_ends_when_its_key_is_not_what_it_was(
    keyed: Keyed, change: Callable[[KeyAdmin, HeldKey], Awaitable[None]]
) -> None:
    http, desk = keyed
    held = await desk.issue()
    async with opened(http, STREAMS[0], held) as stream:
        since = time.monotonic()
        await change(desk, held)

        await ended_for_the_key(stream, since)


async def test_streams_of_other_keys_and_of_the_same_key_named_anew_go_on(keyed: Keyed) -> None:
    http, desk = keyed
    gone, other = await desk.issue(), await desk.issue()
    async with opened(http, STREAMS[1], other) as stays, opened(http, STREAMS[1], gone) as stream:
        since = time.monotonic()
        await desk.change(other, name="another name")
        await desk.revoke(gone)
        await ended_for_the_key(stream, since)

        assert (await stays.next("heartbeat")).name == "heartbeat"


async def test_an_open_stream_ends_when_its_key_expires(keyed: Keyed) -> None:
    http, desk = keyed
    held = await desk.issue(expires_at=time.time() + 2.0)
    async with opened(http, STREAMS[0], held) as stream:
        expires_in = (held.record.expires_at or 0) - time.time()

        await ended_for_the_key(stream, time.monotonic() + expires_in)
        assert time.time() >= (held.record.expires_at or 0)
    assert (await http.get("/runs", headers=held.headers)).status_code == 403


async def test_a_key_that_was_rotated_works_beside_the_new_one_until_it_is_over(
    keyed: Keyed,
) -> None:
    """Rotation is a new key, and an end for the old one: meanwhile both open the same."""
    http, desk = keyed
    former, successor = await desk.issue(), await desk.issue()
    async with (
        opened(http, STREAMS[0], former) as old_stream,
        opened(http, STREAMS[0], successor) as new_stream,
    ):
        ends_at = time.time() + 1.5
        await desk.change(former, expires_at=ends_at, rotated_to=successor.record.key_id)
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


async def test_a_reader_that_does_not_read_is_cut_off_when_its_key_is_revoked(
    keyed: Keyed, store: "Store", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    http, desk = keyed
    stalled, other = await desk.issue(), await desk.issue()
    await knows(http, stalled)
    async with opened(http, STREAMS[0], other) as quick:
        with stalled_reader(str(http.base_url), STREAMS[0], **stalled.headers):
            # More than the kernel takes for it, so that the gateway waits for it to read.
            for step in range(1, 20):
                run = snapshot(
                    run_id=RUN, status="RUNNING", updated_at=NOW + step, params=LARGE, **ACME
                )
                await store.js.publish(f"$KV.pyoco_runs.{RUN}", run.to_bytes())
                await quick.next("snapshot")
            await desk.revoke(stalled)

            # The time it would have for reading is five times as long.
            await eventually(
                lambda: "stalled reader dropped" in caplog.text, True, timeout=PROMISED_SEC
            )


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_needs_a_key_like_everything_else(keyed: Keyed, path: str) -> None:
    http, _ = keyed
    missing = await http.get(path)
    assert (missing.status_code, missing.json()["err_id"]) == (401, "ERR-PYOCO-0014")
    wrong = await http.get(path, headers={"X-API-Key": "pyoco_zzzzzzzzzzzz_" + "A" * 43})
    assert (wrong.status_code, wrong.json()["err_id"]) == (403, "ERR-PYOCO-0015")


async def test_a_key_has_so_many_streams_whatever_address_they_come_from(
    start_gateway: "StartGateway", nats_server: NatsServer, store: "Store"
) -> None:
    async with keyed_gateway_at(
        start_gateway, nats_server.url, store, PYOCO_SSE_MAX_STREAMS_PER_KEY="2"
    ) as (http, desk):
        held, other = await desk.issue(), await desk.issue()
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
    http, desk = keyed
    held = await desk.issue()
    async with (
        start_gateway(nats_server.url, wait=False, **KEYED) as second,
        opened(http, STREAMS[0], held) as here,
        opened(second, STREAMS[0], held) as there,
    ):
        since = time.monotonic()
        await desk.revoke(held)

        await ended_for_the_key(here, since)
        await ended_for_the_key(there, since)


async def test_a_stream_outlives_an_outage_of_the_broker_and_ends_with_its_key_after_it(
    keyed: Keyed, nats_server: NatsServer, store: "Store"
) -> None:
    """Nobody can revoke a key meanwhile, and nothing but heartbeats is told."""
    http, desk = keyed
    held = await desk.issue()
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
        await desk.revoke(held)
        await ended_for_the_key(stream, since)
