"""The table columns of each kind of record."""

import math
import time
from collections.abc import Mapping
from typing import Any, Final

from pyoco_client.cli.display.cells import (
    age_cell,
    duration,
    if_known,
    moment_cell,
    shown,
    text_cell,
)
from pyoco_client.cli.display.output import Layout
from pyoco_client.cli.display.tables import Column, Record


def _took(record: Record) -> str:
    start = record.get("start_time")
    end = record.get("end_time")
    if not isinstance(start, int | float):
        return ""
    return duration((end if isinstance(end, int | float) else time.time()) - start)


def progress(record: Record) -> str:
    """Return the states of all tasks of a run in one line."""
    tasks = record.get("tasks")
    if not isinstance(tasks, dict):
        return ""
    return " ".join(f"{name}={state}" for name, state in tasks.items())


_RUN: Final = Column("RUN_ID", text_cell("run_id"))
_STATUS: Final = Column("STATUS", text_cell("status"))
_FLOW: Final = Column("FLOW", text_cell("flow_name"), shrinks=True, may_go=True)
_TAG: Final = Column("TAG", text_cell("tag"), may_go=True)
_TOOK: Final = Column("TOOK", _took, may_go=True)
_ERROR: Final = Column("ERROR", text_cell("error"), shrinks=True, may_go=True)
_ATTEMPT_AND_ERROR: Final = (
    Column("ATTEMPT", text_cell("attempt")),
    Column("WORKER", text_cell("worker_id")),
    Column("ERR_ID", text_cell("err_id")),
    _ERROR,
)

RUNS: Final = Layout(
    "run_id",
    (
        _RUN,
        _STATUS,
        _FLOW,
        _TAG,
        Column("UPDATED", age_cell("updated_at"), may_go=True),
        _TOOK,
        _ERROR,
    ),
    (
        *(_RUN, _STATUS, _FLOW, _TAG),
        Column("LABELS", text_cell("tags")),
        Column("SUBMITTED", moment_cell("submitted_at")),
        Column("UPDATED", moment_cell("updated_at")),
        _TOOK,
        *_ATTEMPT_AND_ERROR,
    ),
)

_RUN_FIELDS: Final = (
    *(_RUN, _STATUS, _FLOW, _TAG),
    Column("SUBMITTED", moment_cell("submitted_at")),
    _TOOK,
    Column("WORKER", text_cell("worker_id")),
    Column("PARAMS", text_cell("params")),
    Column("TASKS", progress),
    Column("RESULT", text_cell("result")),
    Column("ERR_ID", text_cell("err_id")),
    _ERROR,
    Column("CANCEL", text_cell("cancel_reason")),
)
_RECORDS: Final = Column("RECORDS", text_cell("task_records"))
RUN: Final = Layout(
    "run_id",
    _RUN_FIELDS,
    (
        *_RUN_FIELDS,
        Column("LABELS", text_cell("tags")),
        Column("ATTEMPT", text_cell("attempt")),
        Column("STARTED", moment_cell("start_time")),
        Column("ENDED", moment_cell("end_time")),
        Column("UPDATED", moment_cell("updated_at")),
        Column("CANCEL_REQUESTED", moment_cell("cancel_requested_at")),
        Column("REDRIVEN_FROM", text_cell("redriven_from")),
        Column("WORKFLOW_SHA256", text_cell("workflow_yaml_sha256")),
        _RECORDS,
    ),
)
# For `get --records`.
RUN_AND_RECORDS: Final = Layout("run_id", (*_RUN_FIELDS, _RECORDS), RUN.wide)

ACCEPTED: Final = Layout("run_id", (_RUN, _STATUS), (_RUN, _STATUS))

_TASK: Final = Column("TASK", text_cell("task"))
_TASK_STATE: Final = Column("STATE", text_cell("state"))
_TASK_TOOK: Final = Column(
    "TOOK", lambda record: if_known(record.get("duration_ms"), lambda ms: duration(ms / 1000))
)
_OUTPUT: Final = Column("OUTPUT", text_cell("output"), shrinks=True, may_go=True)
TASKS: Final = Layout(
    "task",
    (_TASK, _TASK_STATE, _TASK_TOOK, _OUTPUT, _ERROR),
    (
        *(_TASK, _TASK_STATE),
        Column("STARTED", moment_cell("started_at")),
        Column("ENDED", moment_cell("ended_at")),
        _TASK_TOOK,
        Column("INPUTS", text_cell("inputs"), shrinks=True),
        *(_OUTPUT, _ERROR),
    ),
)

_WORKER: Final = Column("WORKER_ID", text_cell("worker_id"))
_STATE: Final = Column("STATE", text_cell("state"))
_TAGS: Final = Column("TAGS", text_cell("tags"))


def _slots(record: Record) -> str:
    if record.get("concurrency") is None:
        return ""
    return f"{shown(record.get('slots_in_use'))}/{record['concurrency']}"


_SLOTS: Final = Column("SLOTS", _slots)
_CURRENT: Final = Column("CURRENT_RUN", text_cell("current_run_id"), may_go=True)
WORKERS: Final = Layout(
    "worker_id",
    (_WORKER, _STATE, _TAGS, _SLOTS, Column("SEEN", age_cell("last_seen_at")), _CURRENT),
    (
        *(_WORKER, _STATE, _TAGS, _SLOTS),
        Column("HIDDEN", text_cell("hidden")),
        Column("SEEN", moment_cell("last_seen_at")),
        _CURRENT,
        Column("LAST_RUN", text_cell("last_run_id")),
        Column("LAST_STATUS", text_cell("last_run_status")),
        Column("VERSION", text_cell("version")),
        Column("PYTHON", text_cell("python")),
        Column("HOST", text_cell("host")),
        Column("PID", text_cell("pid")),
        Column("STOPPED", moment_cell("stopped_at")),
        Column("STOP_REASON", text_cell("stop_reason")),
    ),
)
PATCHED: Final = Layout(
    "worker_id",
    (_WORKER, Column("HIDDEN", text_cell("hidden"))),
    (_WORKER, Column("HIDDEN", text_cell("hidden")), Column("UPDATED", moment_cell("updated_at"))),
)

_QUEUE_COLUMNS: Final = (
    Column("TAG", text_cell("tag")),
    Column("PENDING", text_cell("pending")),
    Column("IN_FLIGHT", text_cell("in_flight")),
    Column("OLDEST", lambda record: if_known(record.get("oldest_age_sec"), duration)),
    Column("WORKERS", text_cell("workers")),
    Column("FREE_SLOTS", text_cell("free_slots")),
    Column("WARNINGS", text_cell("warnings")),
)
QUEUES: Final = Layout("tag", _QUEUE_COLUMNS, _QUEUE_COLUMNS)

_SEQ: Final = Column("SEQ", text_cell("seq"))
_REASON: Final = Column("REASON", text_cell("reason"))
LETTERS: Final = Layout(
    "seq",
    (_SEQ, Column("AGE", age_cell("timestamp")), _REASON, _TAG, _RUN, _FLOW, _ERROR),
    (
        *(_SEQ, Column("WRITTEN", moment_cell("timestamp")), _REASON, _TAG, _RUN, _FLOW),
        *_ATTEMPT_AND_ERROR,
    ),
)
LETTER: Final = Layout(
    "seq",
    (*LETTERS.wide, Column("DETAILS", text_cell("details"))),
    (
        *LETTERS.wide,
        Column("LABELS", text_cell("tags")),
        Column("DELIVERIES", text_cell("num_delivered")),
        Column("SUBJECT", text_cell("subject")),
        Column("DETAILS", text_cell("details")),
    ),
)
REDRIVEN: Final = Layout(
    "new_run_id",
    (_SEQ, _RUN, Column("NEW_RUN_ID", text_cell("new_run_id"))),
    (_SEQ, _RUN, Column("NEW_RUN_ID", text_cell("new_run_id"))),
)
DISCARDED: Final = Layout("seq", (_SEQ,), (_SEQ,))

_HEALTH: Final = (
    Column("STATUS", text_cell("status")),
    Column("VERSION", text_cell("version")),
    # The gateway sends these only with `verbose`.
    *(
        Column(part.upper(), text_cell(part))
        for part in ("broker", "streams", "consumers", "index", "versions")
    ),
)
HEALTH: Final = Layout("status", _HEALTH, _HEALTH)


def task_rows(answer: Mapping[str, Any]) -> list[Record]:
    """Return one record for each task of a run, in the order in which they began.

    Tasks that have not begun come last, in the order of the run.
    """
    records = answer.get("task_records") or {}
    rows: list[Record] = [
        {"task": name, "state": state, **(records.get(name) or {})}
        for name, state in (answer.get("tasks") or {}).items()
    ]
    return sorted(rows, key=lambda row: row.get("started_at") or math.inf)
