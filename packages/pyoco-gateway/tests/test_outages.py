"""A gateway recovers without a restart from a broker that is late, stops, or returns empty."""

import asyncio
import gc
import logging
import shutil
from typing import Any

import httpx
import pytest

from pyoco_protocol.jetstream import connection, ensure
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer


async def submit(gateway: httpx.AsyncClient) -> int:
    return (await gateway.post("/runs", json={"flow_name": "hello"})).status_code


async def test_a_gateway_serves_before_its_broker_starts_and_uses_it_afterwards(
    tmp_path: Any, start_gateway: Any
) -> None:
    late = NatsServer(tmp_path / "late")
    await late.start()
    url = late.url
    await late.stop()
    async with start_gateway(url, wait=False) as gateway:
        health = await gateway.get("/health")
        refused = await gateway.post("/runs", json={"flow_name": "hello"})
        async with late:
            await eventually(lambda: submit(gateway), 200)

    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert (refused.status_code, refused.json()["err_id"]) == (503, "ERR-PYOCO-0003")


# The library does not close the connection of an attempt that failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_broker_that_is_down_for_hundreds_of_attempts_is_used_again(
    nats_server: NatsServer, start_gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library itself gives up after sixty attempts, which take two minutes."""
    monkeypatch.setattr(connection, "_RECONNECT_WAIT_SEC", 0.001)
    attempts = 0

    async def hang_up(_: asyncio.StreamReader, caller: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        caller.close()

    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()
        async with await asyncio.start_server(hang_up, "127.0.0.1", nats_server.port):
            await eventually(lambda: attempts, lambda seen: seen > 200, timeout=30)
            assert (await gateway.get("/health")).status_code == 200
            assert await submit(gateway) == 503
        await nats_server.restart()
        await eventually(lambda: submit(gateway), 200)
    # Collected here, where its warnings are ignored, and not during another test.
    gc.collect()


async def test_a_broker_that_is_killed_and_comes_back_is_used_again(
    nats_server: NatsServer, gateway: httpx.AsyncClient
) -> None:
    for _ in range(3):
        nats_server.kill()
        await eventually(lambda: submit(gateway), 503)
        assert (await gateway.get("/health")).status_code == 200
        await nats_server.restart()
        await eventually(lambda: submit(gateway), 200)


async def test_a_broker_that_comes_back_empty_is_set_up_again(
    nats_server: NatsServer, gateway: httpx.AsyncClient, store: Any
) -> None:
    nats_server.kill()
    for path in nats_server.directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    await nats_server.restart()

    await eventually(lambda: submit(gateway), 200)
    await eventually(store.jobs, lambda jobs: len(jobs) == 1)


async def test_a_frozen_broker_does_not_delay_health(
    nats_server: NatsServer, gateway: httpx.AsyncClient
) -> None:
    nats_server.pause()
    try:
        answer = await gateway.get("/health", timeout=1)
    finally:
        nats_server.resume()

    assert answer.status_code == 200


async def test_a_stream_with_other_settings_is_logged_once_and_not_changed(
    nats_server: NatsServer, start_gateway: Any, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await store.js.add_stream(
        name="PYOCO_WORK", subjects=["pyoco.work.>"], retention="workqueue", max_msgs=77
    )

    async with start_gateway(nats_server.url) as gateway:
        await nats_server.restart()
        await eventually(lambda: submit(gateway), 200)

    told = [
        (getattr(record, "resource", None), getattr(record, "found", None))
        for record in caplog.records
        if getattr(record, "setting", None) == "max_msgs"
    ]
    assert told == [("PYOCO_WORK", 77)]
    assert (await store.js.stream_info("PYOCO_WORK")).config.max_msgs == 77


async def test_a_broker_that_is_too_old_answers_each_request_with_an_error_and_stops_nothing(
    nats_server: NatsServer, start_gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensure, "MIN_API_LEVEL", 99)
    async with start_gateway(nats_server.url, wait=False) as gateway:
        await eventually(lambda: submit_err_id(gateway), "ERR-PYOCO-0109")
        assert (await gateway.get("/health")).status_code == 200
        # An operator replaces it with a newer one.
        monkeypatch.setattr(ensure, "MIN_API_LEVEL", 4)
        await nats_server.restart()
        await eventually(lambda: submit(gateway), 200)


async def submit_err_id(gateway: httpx.AsyncClient) -> str:
    return str((await gateway.post("/runs", json={"flow_name": "hello"})).json()["err_id"])
