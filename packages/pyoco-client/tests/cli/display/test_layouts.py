import pytest

from pyoco_client.cli.display.cells import duration, moment
from pyoco_client.cli.display.layouts import RUN, RUNS, task_rows
from pyoco_client.cli.display.safe_text import columns_of
from pyoco_client.cli.display.tables import pairs, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (187, "3m07s"),
        (3599.9, "1h00m"),
        (7500, "2h05m"),
        (86_400 * 4 + 3 * 3600, "4d03h"),
    ],
)
def test_a_duration_is_printed_in_its_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_time_has_its_utc_offset() -> None:
    assert moment(0.0).startswith(("1970-01-01 ", "1969-12-31 "))
    assert moment(0.0)[-6] in "+-"


def test_a_run_with_few_fields_has_a_row() -> None:
    (_, line) = table([{"run_id": "r", "status": "PENDING", "updated_at": None}], RUNS.columns)
    assert line == "r       PENDING"


def test_a_list_of_runs_fits_into_80_columns() -> None:
    run_id = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
    run = {
        "run_id": run_id,
        "status": "CANCELLING",
        "flow_name": "日次売上レポートの作成と配信",
        "tag": "default",
        "updated_at": 1.0,
        "start_time": 1.0,
        "error": "ValueError: " + "x" * 100,
    }
    for line in table([run], RUNS.columns, width=80):
        assert columns_of(line) <= 80
    assert run_id in table([run], RUNS.columns, width=80)[1]


def test_the_table_of_a_run_has_its_result_and_its_tasks() -> None:
    run = {
        "run_id": "r",
        "status": "COMPLETED",
        "flow_name": "挨拶",
        "tasks": {"greet": "SUCCEEDED"},
        "result": {"greet": "こんにちは"},
        "start_time": 10.0,
        "end_time": 72.0,
        "tags": ["a", "b"],
    }
    assert pairs(run, RUN.columns) == [
        "RUN_ID  r",
        "STATUS  COMPLETED",
        "FLOW    挨拶",
        "TOOK    1m02s",
        "TASKS   greet=SUCCEEDED",
        'RESULT  {"greet": "こんにちは"}',
    ]
    assert ["LABELS", "a,b"] in [line.split() for line in pairs(run, RUN.wide)]


def test_tasks_are_in_the_order_of_their_start_also_without_a_record() -> None:
    states = {"later": "RUNNING", "z": "PENDING", "first": "SUCCEEDED", "a": "PENDING"}
    records = {"later": {"started_at": 9.0}, "first": {"started_at": 5.0, "output": 1}}
    assert task_rows({"tasks": states, "task_records": records}) == [
        {"task": "first", "state": "SUCCEEDED", "started_at": 5.0, "output": 1},
        {"task": "later", "state": "RUNNING", "started_at": 9.0},
        {"task": "z", "state": "PENDING"},
        {"task": "a", "state": "PENDING"},
    ]
    assert task_rows({}) == []
