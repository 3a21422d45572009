"""What a gateway was recorded to answer, and the fixture of conftest that answers so."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

RUN_ID = "7d0c1a9e-3f5b-4f0e-9a51-0c2f7a11d3b4"
RUNNING = {
    "run_id": RUN_ID,
    "flow_name": "hello",
    "status": "RUNNING",
    "params": {},
    "tasks": {"greet": "RUNNING"},
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
    "attempt": 1,
}
COMPLETED = {**RUNNING, "status": "COMPLETED", "updated_at": 2.0, "result": {"greet": "Hi"}}
GET, WATCH = f"GET /runs/{RUN_ID}", f"GET /runs/{RUN_ID}/watch"
SSE = "text/event-stream; charset=utf-8"


def problem(number: str, **more: Any) -> dict[str, Any]:
    return {"detail": "d", "err_id": f"ERR-PYOCO-{number}", "message": "m", "hint": "h", **more}


def snapshot(run: Mapping[str, Any], revision: int) -> str:
    data = json.dumps({"run_id": RUN_ID, "snapshot": run, "ts": 1.0})
    return f"event: snapshot\nid: {revision}\ndata: {data}\n\n"


HEARTBEAT = f'event: heartbeat\ndata: {{"run_id":"{RUN_ID}","ts":1.0}}\n\n'


class SentRequest(Protocol):
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def body(self) -> bytes: ...


class Gateway(Protocol):
    """The fixture of conftest, as these tests use it."""

    url: str

    @property
    def requests(self) -> list[SentRequest]: ...

    def answer(
        self,
        route: str,
        status: int = 200,
        body: Any = None,
        *,
        text: str | None = None,
        content_type: str = "application/json",
        hang_up: bool = False,
        headers: Mapping[str, str] | None = None,
        missing_bytes: int = 0,
    ) -> None: ...

    def stay_silent(self, route: str) -> None: ...
