"""`GET /health?verbose=1`: the state of the gateway, with and without a broker."""

import platform
from typing import Any

import httpx

from pyoco_gateway import __version__
from pyoco_protocol.subjects import Names
from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer
from pyoco_testkit.stack import free_port

STREAMS = ["PYOCO_WORK", "PYOCO_DLQ", "KV_pyoco_runs", "KV_pyoco_workers"]


async def report(gateway: httpx.AsyncClient) -> dict[str, Any]:
    answer = await gateway.get("/health?verbose=1")
    assert answer.status_code == httpx.codes.OK, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_healthy_gateway_reports_all_parts(gateway: httpx.AsyncClient, store: Any) -> None:
    run = snapshot(status="COMPLETED")
    await store.js.publish(Names().run(run.run_id), run.to_bytes())

    async def index() -> Any:
        return (await report(gateway))["index"]

    whole = {"caught_up": True, "runs": 1, "unreadable": 0, "revision": 1, "lag": 0}
    await eventually(index, whole)
    found = await report(gateway)
    assert (found["status"], found["version"]) == ("ok", __version__)
    broker = found["broker"]
    assert broker["connected"] is True
    assert broker["server_version"].startswith("2.")
    assert broker["api_level"] >= 4
    assert broker["address"].startswith("nats://127.0.0.1:")
    assert broker["storage_bytes"] > 0
    states = {stream["name"]: stream["state"] for stream in found["streams"]}
    assert all(states[name] == "ok" for name in STREAMS)
    messages = {stream["name"]: stream["messages"] for stream in found["streams"]}
    assert messages["KV_pyoco_runs"] == 1
    assert found["consumers"] == []
    assert (found["executions"]["available"], found["executions"]["problems"]) == (True, [])
    assert found["executions"]["streams"][0]["name"] == "PYOCO_EXECUTIONS"
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["gateway"] == __version__


async def test_missing_streams_and_different_settings_are_named(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    await store.js.delete_stream("PYOCO_DLQ")
    config = (await store.js.stream_info("PYOCO_WORK")).config
    await store.js.update_stream(config.evolve(max_msgs=1000))
    await store.js.add_consumer(
        "PYOCO_WORK",
        durable_name="pyoco_workers_gpu",
        filter_subject="pyoco.work.gpu",
        ack_policy="explicit",
        ack_wait=77,
        max_deliver=5,
    )
    await gateway.post("/runs", json={"flow_name": "hello", "tag": "gpu"})

    found = await report(gateway)

    streams = {stream["name"]: stream for stream in found["streams"]}
    assert streams["PYOCO_DLQ"]["state"] == "missing"
    assert streams["PYOCO_WORK"]["state"] == "differs"
    difference = {"setting": "max_msgs", "wanted": -1, "found": 1000}
    assert streams["PYOCO_WORK"]["differences"] == [difference]
    assert found["consumers"] == [
        {
            "name": "pyoco_workers_gpu",
            "tag": "gpu",
            "pending": 1,
            "in_flight": 0,
            "ack_wait_sec": 77.0,
            "state": "differs",
            "differences": [{"setting": "max_deliver", "wanted": -1, "found": 5}],
        }
    ]


async def test_without_a_broker_the_report_is_immediate_and_says_so(start_gateway: Any) -> None:
    url = f"nats://user:secret@127.0.0.1:{free_port()}"
    async with start_gateway(url, wait=False) as gateway:
        answer = await gateway.get("/health?verbose=true", timeout=1)
        plain = await gateway.get("/health")
        head = await gateway.head("/health?verbose=1")

    found = answer.json()
    assert (answer.status_code, found["status"], head.status_code) == (200, "ok", 200)
    assert found["broker"]["connected"] is False
    assert found["broker"]["server_version"] is None
    assert "secret" not in answer.text
    assert (found["streams"], found["consumers"]) == (None, None)
    assert (found["index"]["caught_up"], found["index"]["lag"]) == (False, None)
    assert plain.json() == {"status": "ok", "version": __version__}


async def test_a_frozen_broker_does_not_block_the_report(
    gateway: httpx.AsyncClient, nats_server: NatsServer
) -> None:
    nats_server.pause()
    found = (await gateway.get("/health?verbose=1", timeout=4)).json()
    nats_server.resume()

    assert found["streams"] is None


async def test_verbose_accepts_only_booleans(gateway: httpx.AsyncClient) -> None:
    for value in ("maybe", "2", ""):
        answer = await gateway.get(f"/health?verbose={value}")
        assert (answer.status_code, answer.json()["err_id"]) == (422, "ERR-PYOCO-0002")
        assert "verbose" in answer.json()["detail"]
