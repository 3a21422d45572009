"""Recorded answers of a gateway about runs."""

import json
from collections.abc import Mapping
from typing import Any, Final

RUN_ID: Final = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
OTHER_RUN_ID: Final = "0b8e6c1d-9f0a-4c57-8d53-3f1f6f0f2a11"
RUNNING: Final = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "RUNNING",
    "params": {},
    "tasks": {"greet": "RUNNING"},
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
    "attempt": 1,
}
COMPLETED: Final = {**RUNNING, "status": "COMPLETED", "updated_at": 2.0, "result": {"greet": "Hi"}}
# A list of runs, with a field that the client does not know.
RUN_LIST: Final[list[dict[str, Any]]] = [
    {"run_id": RUN_ID, "status": "FAILED", "updated_at": 1.0, "flow_name": "挨拶", "error": "no"},
    {
        "run_id": OTHER_RUN_ID,
        "status": "RUNNING",
        "updated_at": 2.0,
        "flow_name": "b",
        "newer": [1],
    },
]
GET: Final = f"GET /runs/{RUN_ID}"
WATCH: Final = f"GET /runs/{RUN_ID}/watch"
SSE: Final = "text/event-stream; charset=utf-8"
HEARTBEAT: Final = f'event: heartbeat\ndata: {{"run_id":"{RUN_ID}","ts":1.0}}\n\n'


def problem(number: str, **more: Any) -> dict[str, Any]:
    """Return the body of an error with the id ERR-PYOCO-`number`."""
    return {"detail": "d", "err_id": f"ERR-PYOCO-{number}", "message": "m", "hint": "h", **more}


def snapshot(run: Mapping[str, Any], revision: int) -> str:
    """Return the text of a snapshot event."""
    data = json.dumps({"run_id": RUN_ID, "snapshot": run, "ts": 1.0})
    return f"event: snapshot\nid: {revision}\ndata: {data}\n\n"
