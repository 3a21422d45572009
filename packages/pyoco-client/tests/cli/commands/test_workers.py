from pyoco_testkit.recorded_gateway import Call, RecordedGateway

WORKER = {
    "worker_id": "worker-1",
    "instance_id": "i",
    "state": "IDLE",
    "hidden": False,
    "last_seen_at": 1.0,
    "last_heartbeat_at": 1.0,
    "tags": ["cpu", "gpu"],
    "concurrency": 4,
    "slots_in_use": 1,
}


def test_workers_sends_its_filters_and_prints_the_answer(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /workers", 200, [WORKER])
    options = ["--scope", "all", "--state", "idle", "--include-hidden", "--limit", "5"]
    assert call("workers", *options).json() == [WORKER]
    for part in ("scope=all", "state=IDLE", "include_hidden=true", "limit=5"):
        assert part in gateway.requests[0].target
    (_, line) = call("workers", "-o", "table").out.splitlines()
    assert line.split()[:4] == ["worker-1", "IDLE", "cpu,gpu", "1/4"]
    assert gateway.requests[-1].target == "/workers"


def test_workers_in_a_state_are_searched_among_all_workers(
    gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer("GET /workers", 200, [])
    assert call("workers", "--state", "stopped_graceful").code == 0
    assert gateway.last_query() == {"scope": ["all"], "state": ["STOPPED_GRACEFUL"]}
