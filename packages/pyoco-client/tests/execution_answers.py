"""Recorded answers of a gateway about executions."""

import json
from collections.abc import Mapping
from typing import Any, Final

EXECUTION_ID: Final = "5b0d7c1a-27a4-5f6e-8f1d-94c5e0b3a762"
OTHER_ID: Final = "0b8e6c1d-9f0a-5c57-8d53-3f1f6f0f2a11"
AT: Final = "2026-11-18T03:15:27.123Z"
LATER: Final = "2026-11-18T03:15:57.123Z"
HASH: Final = "a" * 64
PATH: Final = f"/executions/{EXECUTION_ID}"
GET: Final = f"GET {PATH}"
STREAM: Final = f"GET {PATH}/stream"
SSE: Final = "text/event-stream; charset=utf-8"
HEARTBEAT: Final = 'event: heartbeat\ndata: {"ts":1.0}\n\n'
ACTOR: Final = {"kind": "user", "id": "ann"}


def node(node_id: str, status: str, node_type: str = "Task", **more: Any) -> dict[str, Any]:
    """Return the state of a node."""
    fields = {"nodeId": node_id, "nodeType": node_type, "status": status, "attempt": 1}
    return {**fields, "canceledByExecution": False, **more}


def view(status: str = "ACTIVE", seq: int = 7, **more: Any) -> dict[str, Any]:
    """Return the state of an execution with two nodes."""
    return {
        "executionId": EXECUTION_ID,
        "status": status,
        "graphId": "order-intake",
        "graphVersion": 3,
        "seq": seq,
        "createdAt": AT,
        "createdBy": ACTOR,
        "startedAt": AT,
        "updatedAt": AT,
        "endedAt": None,
        "deadlineAt": None,
        "cancelRequestedAt": None,
        "failRequestedAt": None,
        "archivedAt": None,
        "labels": ["vip"],
        "lastHash": HASH,
        "nodes": [node("fetch", "RUNNING"), node("ship", "IDLE", attempt=0)],
        **more,
    }


def event(seq: int, kind: str, **payload: Any) -> dict[str, Any]:
    """Return an event."""
    return {
        "eventId": f"event-{seq}",
        "executionId": EXECUTION_ID,
        "type": kind,
        "occurredAt": AT,
        "actor": ACTOR,
        "schemaVersion": 1,
        "payload": payload,
        "seq": seq,
    }


def answer(command: str, effect: str = "APPLIED", **more: Any) -> dict[str, Any]:
    """Return the answer to an accepted command."""
    return {
        "executionId": EXECUTION_ID,
        "command": command,
        "accepted": True,
        "effect": effect,
        "correlationId": "c",
        "idempotencyKey": "k",
        "seq": 8,
        "status": "ACTIVE",
        **more,
    }


def problem(code: str, number: str, **details: Any) -> dict[str, Any]:
    """Return the body of an error with the id ERR-PYOCO-`number`."""
    known = {"errId": f"ERR-PYOCO-{number}", "requestId": "r", "detail": "d", "hint": "h"}
    return {"error": {"code": code, "message": "m", "details": {**known, **details}}}


def rejection(reason: str, **details: Any) -> dict[str, Any]:
    """Return the body of a rejected command."""
    state = {"status": "ACTIVE", "nodeStatus": "RUNNING", "seq": 9}
    return problem("COMMAND_REJECTED", "0150", reason=reason, **{**state, **details})


def told(kind: str, data: Mapping[str, Any], seq: int | None = None) -> str:
    """Return the text of an event of a stream."""
    position = "" if seq is None else f"id: {seq}\n"
    return f"event: {kind}\n{position}data: {json.dumps(data)}\n\n"


def told_view(body: Mapping[str, Any]) -> str:
    """Return the text of a snapshot."""
    return told("snapshot", body, body["seq"])


def told_event(seq: int, kind: str, **payload: Any) -> str:
    """Return the text of an event of the log."""
    return told("event", event(seq, kind, **payload), seq)


def told_end(status: str, seq: int) -> str:
    """Return the text of the end of a stream."""
    return told("end", {"status": status, "seq": seq})
