"""The table columns of executions, their nodes and events, waits and graphs."""

from typing import Any, Final

from pyoco_client.cli.display.cells import (
    duration,
    instant_age_cell,
    instant_cell,
    seconds_of,
    shown,
    text_cell,
)
from pyoco_client.cli.display.event_text import error_text, event_detail
from pyoco_client.cli.display.output import Layout
from pyoco_client.cli.display.tables import Column, Record


def _graph(record: Record) -> str:
    version = record.get("graphVersion")
    return shown(record.get("graphId")) + ("" if version is None else f" v{version}")


def _took(record: Record) -> str:
    start, end = seconds_of(record.get("startedAt")), seconds_of(record.get("endedAt"))
    return duration(end - start) if start is not None and end is not None else ""


def _counts(record: Record) -> str:
    return " ".join(f"{count} {status}" for status, count in (record.get("counts") or {}).items())


def _error(record: Record) -> str:
    return error_text(record.get("error"))


def _canceled(record: Record) -> str:
    if record.get("cancelRequestedAt") is None:
        return ""
    actor = (record.get("cancelRequestedBy") or {}).get("id") or ""
    return ": ".join(filter(None, [actor, record.get("cancelReason")])) or "requested"


def _actor(record: Record) -> str:
    actor: dict[str, Any] = record.get("actor") or record.get("createdBy") or {}
    return f"{actor.get('kind', '')}:{actor['id']}" if actor.get("id") else actor.get("kind", "")


_EXECUTION: Final = Column("EXECUTION_ID", text_cell("executionId"))
_STATUS: Final = Column("STATUS", text_cell("status"))
_GRAPH: Final = Column("GRAPH", _graph, shrinks=True)
_LABELS: Final = Column("LABELS", text_cell("labels"))
_SEQ: Final = Column("SEQ", text_cell("seq"))
_NODE: Final = Column("NODE", text_cell("nodeId"))
_ERROR: Final = Column("ERROR", _error, shrinks=True, may_go=True)
_ATTEMPT: Final = Column("ATTEMPT", text_cell("attempt"), may_go=True)

EXECUTIONS: Final = Layout(
    "executionId",
    (
        *(_EXECUTION, _STATUS, _GRAPH),
        Column("UPDATED", instant_age_cell("updatedAt"), may_go=True),
        Column("NODES", _counts, shrinks=True, may_go=True),
    ),
    (
        *(_EXECUTION, _STATUS, _GRAPH, _LABELS, _SEQ),
        Column("CREATED", instant_cell("createdAt")),
        Column("UPDATED", instant_cell("updatedAt")),
        Column("TOOK", _took),
        Column("NODES", _counts),
        Column("OPEN", text_cell("openNodes")),
        Column("CANCEL_REQUESTED", instant_cell("cancelRequestedAt")),
        Column("ARCHIVED", instant_cell("archivedAt")),
    ),
)

_EXECUTION_FIELDS: Final = (
    *(_EXECUTION, _STATUS, _GRAPH, _LABELS, _SEQ),
    Column("CREATED", instant_cell("createdAt")),
    Column("TOOK", _took),
    Column("CANCEL", _canceled),
    Column("FAILED", text_cell("failReason")),
    Column("FAILED_NODE", text_cell("failedNodeId")),
    _ERROR,
    Column("INPUT", text_cell("input")),
    Column("RESULT", text_cell("result")),
)
EXECUTION: Final = Layout(
    "executionId",
    _EXECUTION_FIELDS,
    (
        *_EXECUTION_FIELDS,
        Column("CREATED_BY", _actor),
        Column("STARTED", instant_cell("startedAt")),
        Column("ENDED", instant_cell("endedAt")),
        Column("UPDATED", instant_cell("updatedAt")),
        Column("DEADLINE", instant_cell("deadlineAt")),
        Column("ARCHIVED", instant_cell("archivedAt")),
        Column("LAST_HASH", text_cell("lastHash")),
    ),
)


def _node_status(record: Record) -> str:
    return "SKIPPED" if record.get("skipped") else shown(record.get("status"))


def _approvals(record: Record) -> str:
    approvals = record.get("approvals") or {}
    return f"{approvals['given']} of {approvals['needed']}" if approvals else ""


def _cancel_reason(record: Record) -> str:
    reason = "" if record.get("skipped") else shown(record.get("cancelReason"))
    return f"stopping: {reason}" if reason and record.get("status") == "RUNNING" else reason


def _node_detail(record: Record) -> str:
    # The gateway keeps the last progress of a node that has ended.
    progress = {} if record.get("endedAt") else record.get("progress") or {}
    value = progress.get("value")
    parts = [
        "" if value is None else f"{value:g}%",
        shown(progress.get("message")),
        f"key {record['waitKey']}" if record.get("waitKey") else "",
        f"{_approvals(record)} approvals" if record.get("approvals") else "",
        shown(record.get("prompt")),
        _error(record),
        _cancel_reason(record),
        f"late result {record['lateOutcome']}" if record.get("lateOutcome") else "",
    ]
    return ", ".join(filter(None, parts))


_NODE_FIELDS: Final = (
    _NODE,
    Column("TYPE", text_cell("nodeType"), may_go=True),
    Column("STATUS", _node_status),
    _ATTEMPT,
)
_DETAIL: Final = Column("DETAIL", _node_detail, shrinks=True, may_go=True)
_OUTPUT: Final = Column("OUTPUT", text_cell("output"), shrinks=True, may_go=True)
NODES: Final = Layout(
    "nodeId",
    (*_NODE_FIELDS, Column("TOOK", _took, may_go=True), _DETAIL, _OUTPUT),
    (
        *_NODE_FIELDS,
        Column("STARTED", instant_cell("startedAt")),
        Column("ENDED", instant_cell("endedAt")),
        Column("DEADLINE", instant_cell("deadlineAt")),
        Column("WORKER", text_cell("workerId")),
        Column("TAKEN", text_cell("taken")),
        *(_DETAIL, _OUTPUT),
    ),
)


def _payload(record: Record) -> str:
    return event_detail(record.get("payload") or {})


_EVENT_FIELDS: Final = (
    _SEQ,
    Column("AT", instant_cell("occurredAt"), may_go=True),
    Column("TYPE", text_cell("type")),
    Column("NODE", lambda record: shown((record.get("payload") or {}).get("nodeId"))),
)
_ACTOR: Final = Column("ACTOR", _actor, may_go=True)
EVENTS: Final = Layout(
    "seq",
    # A terminal of 80 columns has room for what happened, not for who did it.
    (*_EVENT_FIELDS, Column("DETAIL", _payload, shrinks=True, may_go=True), _ACTOR),
    (*_EVENT_FIELDS, _ACTOR, Column("PAYLOAD", text_cell("payload"))),
)

_COMMAND: Final = (
    *(_EXECUTION, _STATUS),
    Column("COMMAND", text_cell("command")),
    Column("EFFECT", text_cell("effect")),
    _SEQ,
)
COMMAND: Final = Layout(
    "executionId",
    _COMMAND,
    (
        *_COMMAND,
        Column("IDEMPOTENCY_KEY", text_cell("idempotencyKey")),
        Column("CORRELATION_ID", text_cell("correlationId")),
    ),
)
CREATED: Final = Layout("executionId", (_EXECUTION, _STATUS, _GRAPH, _SEQ), (*COMMAND.wide, _GRAPH))

_WAIT_GRAPH: Final = Column("GRAPH", text_cell("graphId"), shrinks=True, may_go=True)
WAITS: Final = Layout(
    "executionId",
    (
        *(_EXECUTION, _NODE),
        # A terminal of 80 columns has room for the question and the approvals, not for all.
        Column("PROMPT", text_cell("prompt"), shrinks=True, may_go=True),
        Column("APPROVALS", _approvals, may_go=True),
        Column("AGE", instant_age_cell("since"), may_go=True),
        _WAIT_GRAPH,
        Column("KEY", text_cell("waitKey"), shrinks=True, may_go=True),
    ),
    (
        *(_EXECUTION, _NODE, _WAIT_GRAPH),
        Column("SINCE", instant_cell("since")),
        Column("DEADLINE", instant_cell("deadlineAt")),
        Column("KEY", text_cell("waitKey")),
        Column("APPROVALS", _approvals),
        Column("PROMPT", text_cell("prompt")),
    ),
)

_GRAPH_FIELDS: Final = (
    Column("GRAPH_ID", text_cell("graphId")),
    Column("VERSION", text_cell("version")),
)
_HASH: Final = Column("HASH", text_cell("hash"))
STORED: Final = Layout("graphId", _GRAPH_FIELDS, (*_GRAPH_FIELDS, _HASH))
GRAPHS: Final = Layout(
    "graphId",
    (
        *_GRAPH_FIELDS,
        Column("STORED", instant_age_cell("at"), may_go=True),
        Column("BY", text_cell("by"), may_go=True),
        Column("NODES", text_cell("nodes"), may_go=True),
        Column("TITLE", text_cell("title"), shrinks=True, may_go=True),
    ),
    (
        *_GRAPH_FIELDS,
        Column("STORED", instant_cell("at")),
        Column("BY", text_cell("by")),
        Column("NODES", text_cell("nodes")),
        Column("EDGES", text_cell("edges")),
        Column("TITLE", text_cell("title")),
        _HASH,
    ),
)
_DOCUMENT: Final = Column("DOCUMENT", text_cell("document"))
GRAPH: Final = Layout("graphId", GRAPHS.wide, (*GRAPHS.wide, _DOCUMENT))
