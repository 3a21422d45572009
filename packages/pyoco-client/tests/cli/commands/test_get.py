from pyoco_testkit.recorded_answers import COMPLETED, GET, RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_get_prints_the_snapshot_of_the_gateway(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(GET, 200, COMPLETED)
    done = call("get", "--run-id", RUN_ID, "--records")
    assert (done.code, done.json()) == (0, COMPLETED)
    assert len(done.out.splitlines()) == 1
    assert gateway.requests[0].target.endswith("?include=records")


def test_the_table_of_a_run_has_its_task_records_only_with_records(
    gateway: RecordedGateway, call: Call
) -> None:
    records = {"greet": {"state": "SUCCEEDED", "output": "Hello, world!"}}
    gateway.answer(GET, 200, {**COMPLETED, "task_records": records})
    assert "Hello, world!" in call("get", RUN_ID, "--records", "-o", "table").out
    assert "RECORDS" not in call("get", RUN_ID, "-o", "table").out
