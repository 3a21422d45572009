from pyoco_testkit.recorded_answers import RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

TASKS = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "RUNNING",
    "tasks": {"a": "RUNNING"},
    "task_records": {},
    "task_records_truncated": False,
}


def test_tasks_prints_the_answer_of_the_gateway(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}/tasks", 200, TASKS)
    done = call("tasks", "--run-id", RUN_ID)
    assert (done.code, done.json()) == (0, TASKS)
    assert len(done.out.splitlines()) == 1
