import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from execution_answers import AT, HASH, problem
from pyoco_testkit.recorded_gateway import Call, RecordedGateway

YAML = "nodes:\n  - {id: start, type: Start}\n  - {id: a, type: Tusk}\nedges: []\n"
STORED: dict[str, Any] = {"graphId": "order", "version": 2, "hash": HASH, "warnings": []}
FAULT = {"code": "FIELD_INVALID", "where": "nodes[1].type", "message": "is no type\x1b[31m"}
WARNING = {"code": "FLOW_UNKNOWN", "where": "nodes[0]", "message": "no worker has the flow"}
GRAPH = {"graphId": "order", "version": 2, "hash": HASH, "at": AT, "nodes": 2, "edges": 0}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "order.yaml"
    file.write_text(YAML, encoding="utf-8")
    return file


def test_a_graph_is_stored_under_the_name_of_its_file(
    gateway: RecordedGateway, call: Call, path: Path
) -> None:
    gateway.answer("PUT /graphs/order", 201, STORED)
    gateway.answer("PUT /graphs/order", 200, {**STORED, "warnings": [WARNING]})
    done = call("graph", "put", str(path))
    assert (done.code, done.json(), done.err) == (0, STORED, "")
    sent = gateway.requests[0]
    assert (sent.headers["Content-Type"], sent.body) == ("application/yaml", YAML.encode())
    again = call("graph", "put", str(path), "--if-match", "2", "-o", "table")
    assert again.out.splitlines()[:2] == ["GRAPH_ID  order", "VERSION   2"]
    assert again.err.splitlines() == [
        "warning: line 2: nodes[0]: no worker has the flow",
        "version 2 has the same document",
    ]
    assert gateway.requests[1].headers["If-Match"] == "2"


def test_a_graph_can_come_from_stdin_with_an_id(
    gateway: RecordedGateway, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answer("PUT /graphs/other", 201, STORED)
    document = io.TextIOWrapper(io.BytesIO(b'{"nodes": []}'))
    monkeypatch.setattr(sys, "stdin", document)
    assert call("graph", "put", "-", "--graph-id", "other").code == 0
    assert gateway.requests[0].headers["Content-Type"] == "application/json"
    refused = call("graph", "put", "-")
    assert refused.code == 1
    assert "example: pyoco-client graph put - --graph-id order-intake" in refused.err


@pytest.mark.parametrize("name", ["注文.yaml", "my order.yaml", "order.v2.yaml", "_o.yaml"])
def test_a_file_whose_name_is_no_graph_id_needs_one(
    gateway: RecordedGateway, call: Call, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(YAML, encoding="utf-8")
    done = call("graph", "put", str(tmp_path / name))
    assert (done.code, gateway.requests) == (1, [])
    assert f"the file name {name!r} gives no graph id: give one by --graph-id" in done.err
    assert "example: pyoco-client graph put" in done.err
    gateway.answer("PUT /graphs/other", 201, STORED)
    assert call("graph", "put", str(tmp_path / name), "--graph-id", "other").code == 0


def test_an_invalid_graph_is_refused_with_the_lines_of_its_problems(
    gateway: RecordedGateway, call: Call, path: Path
) -> None:
    whole = {"code": "END_MISSING", "where": "document", "message": "has no Success"}
    refusal = problem("GRAPH_INVALID", "0154", problems=[FAULT, whole])
    gateway.answer("PUT /graphs/order", 422, refusal)
    done = call("graph", "put", str(path))
    assert done.code == 1
    assert done.err.splitlines() == [
        "pyoco-client: ERR-PYOCO-0154: m",
        "  line 3: nodes[1].type: is no type\\u001b[31m",
        "  document: has no Success",
        "  hint: h",
        "  request id: r",
    ]


def test_a_validation_prints_every_problem_with_its_place_and_exits_with_1(
    gateway: RecordedGateway, call: Call, path: Path
) -> None:
    report = {"valid": False, "problems": [FAULT], "warnings": [WARNING]}
    gateway.answer("POST /graphs/validate", 200, report)
    done = call("graph", "validate", str(path), "-o", "table")
    told = "FIELD_INVALID: line 3: nodes[1].type: is no type\\u001b[31m\n"
    assert (done.code, done.out) == (1, told)
    assert done.err == "warning: line 2: nodes[0]: no worker has the flow\n"
    whole = call("graph", "validate", str(path))
    assert (whole.code, whole.json()) == (1, report)
    assert json.loads(call("graph", "validate", str(path), "-o", "jsonl").out) == report


def test_a_valid_graph_exits_with_0(gateway: RecordedGateway, call: Call, path: Path) -> None:
    report = {"valid": True, "problems": [], "warnings": []}
    gateway.answer("POST /graphs/validate", 200, report)
    done = call("graph", "validate", str(path), "-o", "table")
    assert (done.code, done.out, done.err) == (0, "valid\n", "")


@pytest.mark.parametrize("command", ["put", "validate"])
def test_a_file_that_cannot_be_read_is_explained(call: Call, command: str) -> None:
    done = call("graph", command, "absent.yaml")
    assert done.code == 1
    assert "absent.yaml cannot be read: No such file or directory\n" in done.err


def test_graphs_and_the_versions_of_one_are_listed(gateway: RecordedGateway, call: Call) -> None:
    gateway.answer("GET /graphs", 200, {"items": [GRAPH], "nextCursor": None})
    versions = [GRAPH, {**GRAPH, "version": 1}]
    gateway.answer("GET /graphs/order/versions", 200, {"items": versions, "nextCursor": None})
    assert call("graph", "list").json() == [GRAPH]
    assert call("graph", "list", "-o", "name").out == "order\n"
    assert call("graph", "list", "--graph-id", "order").json() == versions


def test_a_graph_is_shown_with_its_document(gateway: RecordedGateway, call: Call) -> None:
    whole = {**GRAPH, "title": "Order", "by": "ann", "document": {"nodes": []}}
    gateway.answer("GET /graphs/order", 200, whole)
    gateway.answer("GET /graphs/order/versions/1", 200, {**whole, "version": 1})
    assert call("graph", "show", "order").json() == whole
    table = call("graph", "show", "--graph-id", "order", "-o", "table").out
    assert "TITLE     Order" in table.splitlines()
    assert "document" not in table.lower()
    wide = call("graph", "show", "order", "--graph-version", "1", "-o", "wide").out
    assert 'DOCUMENT  {"nodes": []}' in wide.splitlines()


def test_problems_are_in_the_order_of_their_lines(
    gateway: RecordedGateway, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "order.yaml"
    path.write_text("title: 5\nnodes:\n  - {id: a}\nedges:\n  - {from: a}\n")
    places = ["edges[0].to", "nodes", "nodes[0].type", "title"]
    problems = [{"code": "FIELD_INVALID", "where": place, "message": "m"} for place in places]
    report = {"valid": False, "problems": problems, "warnings": []}
    gateway.answer("POST /graphs/validate", 200, report)
    done = call("graph", "validate", str(path), "-o", "table")
    lines = [line.split(": ")[1] for line in done.out.splitlines()]
    assert lines == ["line 1", "line 2", "line 3", "line 5"]


@pytest.mark.parametrize("graph_id", ["a/b", "..", ""])
def test_a_graph_id_that_is_no_part_of_a_path_is_refused(call: Call, graph_id: str) -> None:
    done = call("graph", "put", "order.yaml", "--graph-id", graph_id)
    assert done.code == 1
    assert f"{graph_id!r} is not an id" in done.err
