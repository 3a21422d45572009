"""What each call sends: one function for each thing that a gateway can be asked."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pyoco_client.retrying import Repeat

Query = tuple[tuple[str, str], ...]
Include = str | Sequence[str] | None
Statuses = str | Sequence[str] | None
# A path, the text itself (it has more than one line), or its bytes.
WorkflowSource = str | bytes | PathLike[str]

JSON_TYPE: Final = "application/json"
EVENT_STREAM_TYPE: Final = "text/event-stream"
# The gateway works on a bulk redrive for up to 30 seconds.
_BULK_TIMEOUT_SEC: Final = 45.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to be sent; as often as `repeat` allows."""

    method: str
    path: str
    query: Query = ()
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeat: Repeat = Repeat.ALWAYS
    # At least this long may an answer take, whatever the client's own limit.
    min_timeout_sec: float = 0.0

    def asking(self, *more: tuple[str, str]) -> "Call":
        """Return the same request with more in its query."""
        return replace(self, query=(*self.query, *more))

    def with_headers(self, more: Mapping[str, str]) -> "Call":
        """Return the same request with further headers."""
        return replace(self, headers={**self.headers, **more})


def _get(path: str, *query: tuple[str, str]) -> Call:
    return Call("GET", path, query)


def _send(method: str, path: str, body: Mapping[str, Any], repeat: Repeat) -> Call:
    # Raises ValueError or TypeError for what is not JSON, before anything is sent.
    content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return Call(method, path, (), content, {"Content-Type": JSON_TYPE}, repeat)


def _given(**values: Any) -> Query:
    """Return the parameters that are given, each value as a query has it."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        many = value if isinstance(value, list | tuple | set | frozenset) else [value]
        pairs += [(name, _query_text(each)) for each in many]
    return tuple(pairs)


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def path_part(what: str, value: str) -> str:
    """Return `value` as one part of a path; raise ValueError for what cannot be one."""
    # An empty or dotted part would quietly become another path.
    if not value.strip("."):
        raise ValueError(f"{value!r} is not a {what}")
    return quote(value, safe="")


def _run_path(run_id: str, *rest: str) -> str:
    return "/".join(["/runs", path_part("run id", run_id), *rest])


def submission(
    flow: str,
    params: Mapping[str, Any] | None,
    tag: str | None,
    tags: Sequence[str] | None,
    idempotency_key: str | None,
) -> Call:
    """Return the submission of a run; only one with a key may ever be sent twice."""
    body: dict[str, Any] = {"flow_name": flow, "params": dict(params or {})}
    if tag is not None:
        body["tag"] = tag
    if tags is not None:
        body["tags"] = [tags] if isinstance(tags, str) else list(tags)
    return _with_key(_send("POST", "/runs", body, Repeat.IF_UNSENT), idempotency_key)


def yaml_submission(
    workflow: WorkflowSource, flow: str, tag: str | None, idempotency_key: str | None
) -> Call:
    """Return the submission of a workflow file."""
    fields = {"flow_name": flow, **({} if tag is None else {"tag": tag})}
    call = _form("/runs/yaml", workflow, fields)
    return _with_key(replace(call, repeat=Repeat.IF_UNSENT), idempotency_key)


def yaml_validation(workflow: WorkflowSource) -> Call:
    """Return the question what is wrong with a workflow file."""
    return _form("/runs/yaml/validate", workflow, {})


def _with_key(call: Call, key: str | None) -> Call:
    if key is None:
        return call
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise ValueError("idempotency_key must be 1 to 255 printable ASCII characters")
    return replace(call.with_headers({"X-Idempotency-Key": key}), repeat=Repeat.ALWAYS)


def workflow_bytes(workflow: WorkflowSource) -> bytes:
    """Return the text of a workflow, given as its bytes, itself, or the path of its file.

    A text of one line without a colon is a path: no workflow is that short.
    """
    if isinstance(workflow, bytes):
        return workflow
    if isinstance(workflow, str) and ("\n" in workflow or ": " in workflow):
        return workflow.encode()
    return Path(workflow).read_bytes()


def _form(path: str, workflow: WorkflowSource, fields: Mapping[str, str]) -> Call:
    boundary = secrets.token_hex(16)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="workflow"; filename="flow.yaml"\r\n'
        "Content-Type: application/yaml\r\n\r\n"
    )
    content = b"".join(
        [*parts, head.encode(), workflow_bytes(workflow), f"\r\n--{boundary}--\r\n".encode()]
    )
    kind = f"multipart/form-data; boundary={boundary}"
    return Call("POST", path, (), content, {"Content-Type": kind})


def run(run_id: str, include: Include = None) -> Call:
    """Return the question how a run is."""
    return _get(_run_path(run_id), *including(include))


def including(include: Include) -> Query:
    """Return the query for further parts of a snapshot."""
    return _given(include=[include] if isinstance(include, str) else list(include or ()))


def tasks(run_id: str) -> Call:
    """Return the question how the tasks of a run are."""
    return _get(_run_path(run_id, "tasks"))


def logs(
    run_id: str,
    *,
    task: str | None = None,
    stream: str | None = None,
    attempt: int | str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
    follow: bool = False,
) -> Call:
    """Return the question what a run printed."""
    query = _given(task=task, stream=stream, attempt=attempt, cursor=cursor, limit=limit)
    return _get(_run_path(run_id, "logs"), *query, *((("follow", "1"),) if follow else ()))


def watch(run_id: str, include: Include = None) -> Call:
    """Return the request for a stream about one run."""
    return _get(_run_path(run_id, "watch"), *including(include))


def cancel(run_id: str, reason: str | None) -> Call:
    """Return a cancel, which can be repeated: the first one stands."""
    path = _run_path(run_id, "cancel")
    if reason is None:
        return Call("POST", path)
    return _send("POST", path, {"reason": reason}, Repeat.ALWAYS)


def delete_run(run_id: str) -> Call:
    """Return the removal of a run; a repeat would be answered that there is none."""
    return Call("DELETE", _run_path(run_id), repeat=Repeat.IF_UNSENT)


def runs(
    *,
    status: Statuses = None,
    flow: str | None = None,
    tag: str | None = None,
    workflow_yaml_sha256: str | None = None,
    submitted_after: float | None = None,
    submitted_before: float | None = None,
    updated_after: float | None = None,
    order: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
    include: Include = None,
) -> Call:
    """Return the request for a list of runs."""
    query = _given(
        status=status,
        flow=flow,
        tag=tag,
        workflow_yaml_sha256=workflow_yaml_sha256,
        submitted_after=submitted_after,
        submitted_before=submitted_before,
        updated_after=updated_after,
        order=order,
        cursor=cursor,
        limit=limit,
    )
    return _get("/runs", *query, *including(include))


def counts(
    status: Statuses, flow: str | None, tag: str | None, workflow_yaml_sha256: str | None
) -> Call:
    """Return the question how many runs there are."""
    query = _given(status=status, flow=flow, tag=tag, workflow_yaml_sha256=workflow_yaml_sha256)
    return _get("/runs/counts", *query)


def watch_runs(
    status: Statuses, flow: str | None, tag: str | None, workflow_yaml_sha256: str | None
) -> Call:
    """Return the request for a stream about many runs."""
    query = _given(status=status, flow=flow, tag=tag, workflow_yaml_sha256=workflow_yaml_sha256)
    return _get("/runs/watch", *query)


def workers(
    scope: str | None, state: str | None, include_hidden: bool | None, limit: int | None
) -> Call:
    """Return the question who works."""
    query = _given(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
    return _get("/workers", *query)


def worker_patch(worker_id: str, hidden: bool) -> Call:
    """Return the request to hide a worker, or to show it; the same twice is the same."""
    path = f"/workers/{path_part('worker id', worker_id)}"
    return _send("PATCH", path, {"hidden": hidden}, Repeat.ALWAYS)


def queues() -> Call:
    """Return the question what waits."""
    return _get("/queues")


def dead_letters(
    reason: str | None,
    tag: str | None,
    run_id: str | None,
    limit: int | None,
    cursor: str | None,
) -> Call:
    """Return the request for a list of dead letters."""
    return _get("/dlq", *_given(reason=reason, tag=tag, run_id=run_id, limit=limit, cursor=cursor))


def dead_letter(seq: int) -> Call:
    """Return the request for one dead letter."""
    return _get(f"/dlq/{int(seq)}")


def redrive(seq: int) -> Call:
    """Return the request to run a dead letter again; a repeat may find it gone."""
    return Call("POST", f"/dlq/{int(seq)}/redrive", repeat=Repeat.IF_UNSENT)


def discard(seq: int) -> Call:
    """Return the removal of a dead letter; a repeat would be answered that there is none."""
    return Call("DELETE", f"/dlq/{int(seq)}", repeat=Repeat.IF_UNSENT)


def redrive_all(body: Mapping[str, Any]) -> Call:
    """Return the request to run many dead letters again."""
    given = {name: value for name, value in body.items() if value is not None}
    repeat = Repeat.ALWAYS if given.get("dry_run") else Repeat.IF_UNSENT
    return replace(_send("POST", "/dlq/redrive", given, repeat), min_timeout_sec=_BULK_TIMEOUT_SEC)


def metrics() -> Call:
    """Return the request for the page of metrics."""
    return _get("/metrics").with_headers({"Accept": "text/plain"})


def health(verbose: bool) -> Call:
    """Return the question whether the gateway serves."""
    return _get("/health", *((("verbose", "1"),) if verbose else ()))
