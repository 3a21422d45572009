"""`GET /metrics`, for Prometheus."""

import json
import time
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from pyoco_testkit.builders import snapshot
from pyoco_testkit.eventually import eventually
from pyoco_testkit.nats_server import NatsServer

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(gateway: httpx.AsyncClient) -> Samples:
    answer = await gateway.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def named(samples: Samples, name: str) -> dict[str, float]:
    """Return the samples of a family with at most one label, by its value."""
    return {
        "".join(value for _, value in labels): number
        for (found, labels), number in samples.items()
        if found == name
    }


async def put_run(store: Any, **fields: Any) -> str:
    run = snapshot(**fields)
    await store.js.publish(f"$KV.pyoco_runs.{run.run_id}", run.to_bytes())
    return run.run_id


async def test_the_three_published_families_have_their_exact_names(
    gateway: httpx.AsyncClient, store: Any
) -> None:
    for status in ("COMPLETED", "COMPLETED", "FAILED", "RUNNING"):
        await put_run(store, status=status)
    now = time.time()
    worker = {"worker_id": "w", "state": "IDLE", "last_seen_at": now, "last_heartbeat_at": now}
    await store.js.publish("$KV.pyoco_workers.w", json.dumps(worker).encode())
    await store.js.publish("pyoco.dlq.gpu", b"{}")

    def is_all_there(page: str) -> bool:
        return 'pyoco_runs_total{status="RUNNING"} 1.0\n' in page and (
            "\npyoco_workers_alive_total 1.0\n" in page
            and "\npyoco_dlq_messages_total 1.0\n" in page
        )

    async def page() -> str:
        return (await gateway.get("/metrics")).text

    text = await eventually(page, is_all_there)
    samples = await scrape(gateway)
    assert "# TYPE pyoco_runs_total gauge\n" in text
    assert named(samples, "pyoco_runs_total") == {
        "PENDING": 0,
        "RUNNING": 1,
        "CANCELLING": 0,
        "COMPLETED": 2,
        "FAILED": 1,
        "CANCELLED": 0,
    }
    assert 0 < named(samples, "pyoco_dlq_fill_ratio")[""] < 0.01
    assert "_created" not in text


async def test_a_gateway_that_has_just_started_has_all_metrics(gateway: httpx.AsyncClient) -> None:
    samples = await scrape(gateway)
    assert set(named(samples, "pyoco_runs_total").values()) == {0}
    assert named(samples, "pyoco_workers_alive_total") == {"": 0}
    assert named(samples, "pyoco_dlq_messages_total") == {"": 0}
    assert named(samples, "pyoco_broker_connected") == {"": 1}
    assert named(samples, "pyoco_index_lag_revisions") == {"": 0}
    assert named(samples, "pyoco_index_unreadable_total") == {"": 0}
    assert named(samples, "pyoco_reaper_actions_total") == {
        "finish_cancelled": 0,
        "queue_again": 0,
        "hand_over": 0,
        "bury_parked_job": 0,
        "forget_worker": 0,
    }
    assert named(samples, "process_resident_memory_bytes")[""] > 0


async def test_queues_and_runs_are_counted_by_tag(gateway: httpx.AsyncClient) -> None:
    for tag in ("gpu", "gpu", "cpu"):
        await gateway.post("/runs", json={"flow_name": "hello", "tag": tag})

    def has_both(samples: Samples) -> bool:
        return named(samples, "pyoco_queue_pending") == {"gpu": 2, "cpu": 1}

    samples = await eventually(lambda: scrape(gateway), has_both)
    assert named(samples, "pyoco_queue_in_flight") == {"gpu": 0, "cpu": 0}
    assert set(named(samples, "pyoco_queue_oldest_age_seconds")) == {"gpu", "cpu"}
    submitted = ("pyoco_runs_submitted_total", (("flow", "hello"), ("tag", "gpu")))
    assert samples[submitted] == 2


async def test_unreadable_records_are_counted(gateway: httpx.AsyncClient, store: Any) -> None:
    await store.js.publish("$KV.pyoco_runs.bad", b"no json")
    await store.js.publish("$KV.pyoco_workers.bad", b"no json")

    async def counted() -> list[float]:
        samples = await scrape(gateway)
        names = ("pyoco_index_unreadable_total", "pyoco_workers_unreadable_total")
        return [named(samples, name)[""] for name in names]

    await eventually(counted, [1, 1])


async def test_requests_are_timed_by_route_and_never_by_path(gateway: httpx.AsyncClient) -> None:
    run_id = (await gateway.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
    await gateway.get(f"/runs/{run_id}")
    await gateway.post("/runs", json={})
    for number in range(5):
        await gateway.get(f"/no-such-page-{number}")
        await gateway.request("PROPFIND", f"/no-such-page-{number}")

    timed = {
        tuple(value for _, value in labels): count
        for (name, labels), count in (await scrape(gateway)).items()
        if name == "pyoco_http_request_duration_seconds_count"
    }

    assert timed[("POST", "/runs", "200")] == 1
    assert timed[("POST", "/runs", "422")] == 1
    assert timed[("GET", "/runs/{run_id}", "200")] == 1
    assert timed[("GET", "unmatched", "404")] == 5
    assert {method for method, _, _ in timed} == {"GET", "POST", "other"}
    assert not [route for _, route, _ in timed if run_id in route or "such" in route]


async def test_without_its_broker_the_page_says_so_and_leaves_out_the_metrics_of_the_broker(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with start_gateway(nats_server.url) as gateway:
        nats_server.kill()

        async def is_connected() -> float:
            return named(await scrape(gateway), "pyoco_broker_connected")[""]

        await eventually(is_connected, 0.0)
        names = {name for name, _ in await scrape(gateway)}
        await nats_server.restart()

        async def families() -> set[str]:
            return {name for name, _ in await scrape(gateway)}

        # Shown again when the gateway has read all changes made during the outage.
        await eventually(families, lambda found: "pyoco_runs_total" in found)
    of_the_broker = {
        "pyoco_runs_total",
        "pyoco_workers_alive_total",
        "pyoco_dlq_messages_total",
    }
    assert not names & of_the_broker
    assert "pyoco_http_request_duration_seconds_count" in names


async def test_a_gateway_that_never_had_a_broker_has_metrics(start_gateway: Any) -> None:
    async with start_gateway("nats://127.0.0.1:1", wait=False) as gateway:
        samples = await scrape(gateway)
    assert named(samples, "pyoco_broker_connected") == {"": 0}
    assert named(samples, "pyoco_runs_total") == {}


async def test_two_gateways_in_one_process_count_separately(
    nats_server: NatsServer, start_gateway: Any
) -> None:
    async with (
        start_gateway(nats_server.url) as first,
        start_gateway(nats_server.url) as second,
    ):
        await first.get("/")
        pages = [await scrape(each) for each in (first, second)]
    in_first, in_second = ({pair for _, labels in page for pair in labels} for page in pages)
    assert ("route", "/") in in_first
    assert ("route", "/") not in in_second


async def test_a_scrape_makes_no_request_per_run(gateway: httpx.AsyncClient, store: Any) -> None:
    for _ in range(300):
        await put_run(store, status="COMPLETED")

    async def completed() -> float:
        return named(await scrape(gateway), "pyoco_runs_total")["COMPLETED"]

    await eventually(completed, 300)
    before = int((await store.js.account_info()).api.total)
    for _ in range(20):
        await scrape(gateway)
    assert int((await store.js.account_info()).api.total) - before < 60
