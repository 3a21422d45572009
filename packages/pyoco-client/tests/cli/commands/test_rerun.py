import json
from typing import Any

import pytest

from pyoco_testkit.recorded_answers import OTHER_RUN_ID, RUN_ID
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

ACCEPTED = {"run_id": OTHER_RUN_ID, "status": "PENDING"}


OLD = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "FAILED",
    "params": {"name": "a", "count": 1},
    "tasks": {},
    "tag": "cpu",
    "tags": ["nightly"],
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
}


def sent(gateway: RecordedGateway) -> Any:
    return json.loads(gateway.requests[-1].body)


def test_a_rerun_copies_the_run_and_given_params_win(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, OLD)
    gateway.answer("POST /runs", 200, ACCEPTED)
    done = call("rerun", RUN_ID, "--param", "name=b")
    assert (done.code, done.json()) == (0, ACCEPTED)
    assert done.err == f"run {RUN_ID} is run again as {OTHER_RUN_ID}\n"
    assert sent(gateway) == {
        "flow_name": "hello",
        "params": {"name": "b", "count": 1},
        "tag": "cpu",
        "tags": ["nightly"],
    }


@pytest.mark.parametrize(
    ("labels", "kept"), [(["nightly"], ["nightly"]), (["cpu"], None), (["cpu", "x"], ["cpu", "x"])]
)
def test_a_rerun_with_another_tag_keeps_explicit_labels(
    labels: list[str], kept: list[str] | None, gateway: RecordedGateway, call: Call
) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**OLD, "tags": labels})
    gateway.answer("POST /runs", 200, ACCEPTED)
    assert call("rerun", RUN_ID, "--tag", "gpu").code == 0
    assert (sent(gateway)["tag"], sent(gateway).get("tags")) == ("gpu", kept)


def test_a_run_of_a_workflow_file_cannot_be_rerun(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer(f"GET /runs/{RUN_ID}", 200, {**OLD, "workflow_yaml_sha256": "ab" * 32})
    done = call("rerun", RUN_ID)
    assert (done.code, done.out, len(gateway.requests)) == (1, "", 1)
    assert "submit-yaml --workflow-file flow.yaml --flow-name hello --tag cpu" in done.err
