from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_a_worker_is_hidden_and_shown(gateway: RecordedGateway, call: Call) -> None:
    answer = {"worker_id": "worker-1", "hidden": True, "updated_at": 1.0}
    gateway.answer("PATCH /workers/worker-1", 200, answer)
    assert call("worker", "hide", "worker-1").json() == answer
    assert call("worker", "show", "worker-1", "-o", "name").out == "worker-1\n"
    assert [each.body for each in gateway.requests] == [b'{"hidden": true}', b'{"hidden": false}']
