"""The table columns of each kind of record."""

import json
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyoco_client.cli.display.output import Layout
from pyoco_client.cli.display.tables import Column, Record

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def duration(seconds: float) -> str:
    """Return a duration in its largest units: `0.4s`, `42s`, `3m07s`, `2h05m`, `4d03h`."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def moment(timestamp: float) -> str:
    """Return a unix time as local time with its UTC offset."""
    return datetime.fromtimestamp(timestamp, UTC).astimezone().isoformat(" ", "seconds")


def _text(field: str) -> Callable[[Record], str]:
    return lambda record: _shown(record.get(field))


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ",".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _moment(field: str) -> Callable[[Record], str]:
    return lambda record: _if_known(record.get(field), moment)


def _age(field: str) -> Callable[[Record], str]:
    return lambda record: _if_known(record.get(field), lambda at: duration(time.time() - at))


def _if_known(value: Any, shown: Callable[[float], str]) -> str:
    return shown(value) if isinstance(value, int | float) else ""


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


_RUN: Final = Column("RUN_ID", _text("run_id"))
_STATUS: Final = Column("STATUS", _text("status"))
_FLOW: Final = Column("FLOW", _text("flow_name"), shrinks=True, may_go=True)
_TAG: Final = Column("TAG", _text("tag"), may_go=True)
_TOOK: Final = Column("TOOK", _took, may_go=True)
_ERROR: Final = Column("ERROR", _text("error"), shrinks=True, may_go=True)
_ATTEMPT_AND_ERROR: Final = (
    Column("ATTEMPT", _text("attempt")),
    Column("WORKER", _text("worker_id")),
    Column("ERR_ID", _text("err_id")),
    _ERROR,
)

RUNS: Final = Layout(
    "run_id",
    (_RUN, _STATUS, _FLOW, _TAG, Column("UPDATED", _age("updated_at"), may_go=True), _TOOK, _ERROR),
    (
        *(_RUN, _STATUS, _FLOW, _TAG),
        Column("LABELS", _text("tags")),
        Column("SUBMITTED", _moment("submitted_at")),
        Column("UPDATED", _moment("updated_at")),
        _TOOK,
        *_ATTEMPT_AND_ERROR,
    ),
)

_RUN_FIELDS: Final = (
    *(_RUN, _STATUS, _FLOW, _TAG),
    Column("SUBMITTED", _moment("submitted_at")),
    _TOOK,
    Column("WORKER", _text("worker_id")),
    Column("PARAMS", _text("params")),
    Column("TASKS", progress),
    Column("RESULT", _text("result")),
    Column("ERR_ID", _text("err_id")),
    _ERROR,
    Column("CANCEL", _text("cancel_reason")),
)
_RECORDS: Final = Column("RECORDS", _text("task_records"))
RUN: Final = Layout(
    "run_id",
    _RUN_FIELDS,
    (
        *_RUN_FIELDS,
        Column("LABELS", _text("tags")),
        Column("ATTEMPT", _text("attempt")),
        Column("STARTED", _moment("start_time")),
        Column("ENDED", _moment("end_time")),
        Column("UPDATED", _moment("updated_at")),
        Column("CANCEL_REQUESTED", _moment("cancel_requested_at")),
        Column("REDRIVEN_FROM", _text("redriven_from")),
        Column("WORKFLOW_SHA256", _text("workflow_yaml_sha256")),
        _RECORDS,
    ),
)
# For `get --records`.
RUN_AND_RECORDS: Final = Layout("run_id", (*_RUN_FIELDS, _RECORDS), RUN.wide)

ACCEPTED: Final = Layout("run_id", (_RUN, _STATUS), (_RUN, _STATUS))

_TASK: Final = Column("TASK", _text("task"))
_TASK_STATE: Final = Column("STATE", _text("state"))
_TASK_TOOK: Final = Column(
    "TOOK", lambda record: _if_known(record.get("duration_ms"), lambda ms: duration(ms / 1000))
)
_OUTPUT: Final = Column("OUTPUT", _text("output"), shrinks=True, may_go=True)
TASKS: Final = Layout(
    "task",
    (_TASK, _TASK_STATE, _TASK_TOOK, _OUTPUT, _ERROR),
    (
        *(_TASK, _TASK_STATE),
        Column("STARTED", _moment("started_at")),
        Column("ENDED", _moment("ended_at")),
        _TASK_TOOK,
        Column("INPUTS", _text("inputs"), shrinks=True),
        *(_OUTPUT, _ERROR),
    ),
)

_WORKER: Final = Column("WORKER_ID", _text("worker_id"))
_STATE: Final = Column("STATE", _text("state"))
_TAGS: Final = Column("TAGS", _text("tags"))


def _slots(record: Record) -> str:
    if record.get("concurrency") is None:
        return ""
    return f"{_shown(record.get('slots_in_use'))}/{record['concurrency']}"


_SLOTS: Final = Column("SLOTS", _slots)
_CURRENT: Final = Column("CURRENT_RUN", _text("current_run_id"), may_go=True)
WORKERS: Final = Layout(
    "worker_id",
    (_WORKER, _STATE, _TAGS, _SLOTS, Column("SEEN", _age("last_seen_at")), _CURRENT),
    (
        *(_WORKER, _STATE, _TAGS, _SLOTS),
        Column("HIDDEN", _text("hidden")),
        Column("SEEN", _moment("last_seen_at")),
        _CURRENT,
        Column("LAST_RUN", _text("last_run_id")),
        Column("LAST_STATUS", _text("last_run_status")),
        Column("VERSION", _text("version")),
        Column("PYTHON", _text("python")),
        Column("HOST", _text("host")),
        Column("PID", _text("pid")),
        Column("STOPPED", _moment("stopped_at")),
        Column("STOP_REASON", _text("stop_reason")),
    ),
)
PATCHED: Final = Layout(
    "worker_id",
    (_WORKER, Column("HIDDEN", _text("hidden"))),
    (_WORKER, Column("HIDDEN", _text("hidden")), Column("UPDATED", _moment("updated_at"))),
)

_QUEUE_COLUMNS: Final = (
    Column("TAG", _text("tag")),
    Column("PENDING", _text("pending")),
    Column("IN_FLIGHT", _text("in_flight")),
    Column("OLDEST", lambda record: _if_known(record.get("oldest_age_sec"), duration)),
    Column("WORKERS", _text("workers")),
    Column("FREE_SLOTS", _text("free_slots")),
    Column("WARNINGS", _text("warnings")),
)
QUEUES: Final = Layout("tag", _QUEUE_COLUMNS, _QUEUE_COLUMNS)

_SEQ: Final = Column("SEQ", _text("seq"))
_REASON: Final = Column("REASON", _text("reason"))
LETTERS: Final = Layout(
    "seq",
    (_SEQ, Column("AGE", _age("timestamp")), _REASON, _TAG, _RUN, _FLOW, _ERROR),
    (
        *(_SEQ, Column("WRITTEN", _moment("timestamp")), _REASON, _TAG, _RUN, _FLOW),
        *_ATTEMPT_AND_ERROR,
    ),
)
LETTER: Final = Layout(
    "seq",
    (*LETTERS.wide, Column("DETAILS", _text("details"))),
    (
        *LETTERS.wide,
        Column("LABELS", _text("tags")),
        Column("DELIVERIES", _text("num_delivered")),
        Column("SUBJECT", _text("subject")),
        Column("DETAILS", _text("details")),
    ),
)
REDRIVEN: Final = Layout(
    "new_run_id",
    (_SEQ, _RUN, Column("NEW_RUN_ID", _text("new_run_id"))),
    (_SEQ, _RUN, Column("NEW_RUN_ID", _text("new_run_id"))),
)
DISCARDED: Final = Layout("seq", (_SEQ,), (_SEQ,))

_HEALTH: Final = (
    Column("STATUS", _text("status")),
    Column("VERSION", _text("version")),
    # The gateway sends these only with `verbose`.
    *(
        Column(part.upper(), _text(part))
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
