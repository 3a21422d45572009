from pathlib import Path

from pyoco_testkit.recorded_gateway import Call, RecordedGateway


def test_the_problems_of_a_workflow_file_are_listed_with_their_lines(
    gateway: RecordedGateway, call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("flow: {}\n")
    problem = {"code": "x", "where": "tasks.a", "line": 3, "what": "is no task"}
    fault = {"where": "flow_name", "what": "is too long"}
    body = {"err_id": "ERR-PYOCO-0002", "message": "not valid", "problems": [problem, fault]}
    gateway.answer("POST /runs/yaml", 422, body)
    done = call("submit-yaml", "--workflow-file", str(file), "--flow-name", "x")
    assert (done.code, done.out) == (1, "")
    assert "  line 3: tasks.a: is no task\n  flow_name: is too long\n" in done.err
