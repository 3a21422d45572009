from pyoco_client.models import Run, RunItem, RunStatus, RunTasks

SNAPSHOT = {
    "run_id": "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4",
    "flow_name": "hello",
    "status": "COMPLETED",
    "params": {"n": 1},
    "tasks": {"greet": "SUCCEEDED"},
    "heartbeat_at": 1.0,
    "updated_at": 2.0,
    "task_records": {"greet": {"state": "SUCCEEDED", "output": "Hi", "gpu_sec": 3.5}},
    "carbon_grams": 0.25,
}


def test_fields_of_a_newer_gateway_are_kept_at_every_depth() -> None:
    run = Run.model_validate(SNAPSHOT)
    assert run.status is RunStatus.COMPLETED
    assert run.is_over
    assert run.model_extra == {"carbon_grams": 0.25}
    assert run.task_records["greet"].model_extra == {"gpu_sec": 3.5}
    assert run.as_dict() == SNAPSHOT


def test_tasks_keep_unknown_fields() -> None:
    names = ("run_id", "flow_name", "status", "tasks", "task_records")
    body = {**{name: SNAPSHOT[name] for name in names}, "task_records_truncated": False}
    assert RunTasks.model_validate(body).as_dict() == body


def test_missing_fields_of_a_listed_run_stay_missing() -> None:
    item = {"run_id": "r", "status": "RUNNING", "updated_at": 3.0, "newer": [1]}
    assert RunItem.model_validate(item).as_dict() == item
