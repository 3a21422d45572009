from pyoco_testkit.recorded_gateway import Call, RecordedGateway

QUEUE = {
    "tag": "gpu",
    "pending": 3,
    "in_flight": 0,
    "oldest_age_sec": 187.0,
    "workers": 0,
    "free_slots": 0,
    "warnings": ["has work, has no worker"],
}


def test_queues_shows_the_age_of_the_oldest_run(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /queues", 200, [QUEUE])
    (_, line) = call("queues", "-o", "table").out.splitlines()
    assert line.split()[:4] == ["gpu", "3", "0", "3m07s"]
    assert line.endswith("has work, has no worker")
    assert call("queues").json() == [QUEUE]
