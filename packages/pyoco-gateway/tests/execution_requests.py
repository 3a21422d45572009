"""Executions over HTTP: what most tests of routes begin with."""

from typing import Any

import httpx

from pyoco_protocol.ids import new_run_id

GRAPH = {
    "nodes": [
        {"id": "start", "type": "Start"},
        {"id": "t", "type": "Task"},
        {"id": "done", "type": "Success"},
        {"id": "rejected", "type": "Failed"},
    ],
    "edges": [
        {"from": "start", "to": "t"},
        {"from": "t", "to": "done", "when": "output.ok"},
        {"from": "t", "to": "rejected"},
    ],
}


async def post(http: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    """Send a command, which must be accepted."""
    headers = {"X-Idempotency-Key": new_run_id(), "X-Correlation-Id": "req-81"}
    answer = await http.post(path, json=body, headers=headers)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def created(http: httpx.AsyncClient, **body: Any) -> str:
    """Store the graph, create an execution of it and start it; return its path."""
    stored = await http.put("/graphs/order", json=GRAPH)
    assert stored.is_success, stored.text
    answer = await post(http, "/executions", graphId="order", start=True, **body)
    return f"/executions/{answer['executionId']}"


async def completed(http: httpx.AsyncClient) -> str:
    """Create an execution and complete it; return its path."""
    path = await created(http, input={"order": 7}, labels=["a", "b"])
    await post(http, f"{path}/nodes/t/start", workerId="w")
    await post(http, f"{path}/nodes/t/success", output={"ok": True, "none": None})
    return path


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of an error."""
    return answer.status_code, answer.json()["error"]["code"]
