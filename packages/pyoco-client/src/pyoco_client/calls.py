"""Builds the requests of the client: one function for each operation of the gateway."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from pyoco_client.http_call import Call, Query, check_names, get, given, path_part, send
from pyoco_client.retry_rules import Repeat

Include = str | Sequence[str] | None
Statuses = str | Sequence[str] | None
# A path, the text of a workflow, or its bytes.
WorkflowSource = str | bytes | PathLike[str]

# The gateway takes up to 30 seconds for a bulk redrive.
_BULK_TIMEOUT_SEC: Final = 45.0


class RunFilters(TypedDict, total=False):
    """Filters of runs; a missing filter and None match all runs.

    `flow` with a `*` at its end matches by prefix.
    """

    status: Statuses
    flow: str | None
    tag: str | None
    workflow_yaml_sha256: str | None


class RunListFilters(RunFilters, total=False):
    """Filters of a list of runs; times are unix seconds."""

    submitted_after: float | None
    submitted_before: float | None


class RunListPosition(TypedDict, total=False):
    """The part of a list of runs to return; with `updated_after` it is a list of changes."""

    updated_after: float | None
    order: str | None
    cursor: str | None
    limit: int | None


class DeadLetterFilters(TypedDict, total=False):
    """Filters of dead letters; a missing filter and None match all of them."""

    reason: str | None
    tag: str | None
    run_id: str | None


def _run_path(run_id: str, *rest: str) -> str:
    return "/".join(["/runs", path_part("run id", run_id), *rest])


def submission(
    flow: str,
    params: Mapping[str, Any] | None,
    tag: str | None,
    tags: Sequence[str] | None,
    idempotency_key: str | None,
) -> Call:
    """Return the submission of a run; it may be repeated only with an idempotency key."""
    body: dict[str, Any] = {"flow_name": flow, "params": dict(params or {})}
    if tag is not None:
        body["tag"] = tag
    if tags is not None:
        body["tags"] = [tags] if isinstance(tags, str) else list(tags)
    call = send("POST", "/runs", body, Repeat.IF_UNSENT)
    return call if idempotency_key is None else call.with_key(idempotency_key)


def yaml_submission(
    workflow: WorkflowSource, flow: str, tag: str | None, idempotency_key: str | None
) -> Call:
    """Return the submission of a workflow file."""
    fields = {"flow_name": flow, **({} if tag is None else {"tag": tag})}
    call = replace(_form("/runs/yaml", workflow, fields), repeat=Repeat.IF_UNSENT)
    return call if idempotency_key is None else call.with_key(idempotency_key)


def yaml_validation(workflow: WorkflowSource) -> Call:
    """Return the request that validates a workflow file."""
    return _form("/runs/yaml/validate", workflow, {})


def workflow_bytes(workflow: WorkflowSource) -> bytes:
    """Return the bytes of a workflow, given as bytes, text, or the path of its file.

    A text of one line without a colon is a path: a workflow always has more.
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
    """Return the request for the snapshot of a run."""
    return get(_run_path(run_id), *including(include))


def including(include: Include) -> Query:
    """Return the query parameters for more parts of a snapshot."""
    return given(include=[include] if isinstance(include, str) else list(include or ()))


def tasks(run_id: str) -> Call:
    """Return the request for the tasks of a run."""
    return get(_run_path(run_id, "tasks"))


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
    """Return the request for the output of a run."""
    query = given(task=task, stream=stream, attempt=attempt, cursor=cursor, limit=limit)
    return get(_run_path(run_id, "logs"), *query, *((("follow", "1"),) if follow else ()))


def watch(run_id: str, include: Include = None) -> Call:
    """Return the request for the event stream of one run."""
    return get(_run_path(run_id, "watch"), *including(include))


def cancel(run_id: str, reason: str | None) -> Call:
    """Return the cancel of a run; a repeated cancel changes nothing."""
    path = _run_path(run_id, "cancel")
    if reason is None:
        return Call("POST", path)
    return send("POST", path, {"reason": reason}, Repeat.ALWAYS)


def delete_run(run_id: str) -> Call:
    """Return the deletion of a run; a repetition would be answered with 404."""
    return Call("DELETE", _run_path(run_id), repeat=Repeat.IF_UNSENT)


def runs(
    filters: RunListFilters, *, include: Include = None, **position: Unpack[RunListPosition]
) -> Call:
    """Return the request for a list of runs."""
    place = {name: position.get(name) for name in RunListPosition.__annotations__}
    query = (*_filters(filters, RunListFilters), *given(**place))
    return get("/runs", *query, *including(include))


def changes(filters: RunFilters, limit: int) -> Call:
    """Return the request for changes of runs, without the position to start from."""
    return get("/runs", *_filters(filters, RunFilters), *given(limit=limit))


def counts(filters: RunFilters) -> Call:
    """Return the request for the number of runs."""
    return get("/runs/counts", *_filters(filters, RunFilters))


def watch_runs(filters: RunFilters) -> Call:
    """Return the request for the event stream of all matching runs."""
    return get("/runs/watch", *_filters(filters, RunFilters))


def _filters(filters: RunFilters | DeadLetterFilters, kind: type) -> Query:
    check_names(filters, kind)
    return given(**filters)


def workers(
    scope: str | None, state: str | None, include_hidden: bool | None, limit: int | None
) -> Call:
    """Return the request for the list of workers.

    The default scope of the gateway hides stopped and lost workers, also from a filter by state.
    """
    if scope is None and state is not None:
        scope = "all"
    query = given(scope=scope, state=state, include_hidden=include_hidden, limit=limit)
    return get("/workers", *query)


def worker_patch(worker_id: str, hidden: bool) -> Call:
    """Return the request to hide or show a worker; a repetition changes nothing."""
    path = f"/workers/{path_part('worker id', worker_id)}"
    return send("PATCH", path, {"hidden": hidden}, Repeat.ALWAYS)


def queues() -> Call:
    """Return the request for the queues."""
    return get("/queues")


def dead_letters(filters: DeadLetterFilters, limit: int | None, cursor: str | None) -> Call:
    """Return the request for a list of dead letters."""
    query = _filters(filters, DeadLetterFilters)
    return get("/dlq", *query, *given(limit=limit, cursor=cursor))


def dead_letter(seq: int) -> Call:
    """Return the request for one dead letter."""
    return get(f"/dlq/{int(seq)}")


def redrive(seq: int) -> Call:
    """Return the request to run a dead letter again; a repetition may get 404."""
    return Call("POST", f"/dlq/{int(seq)}/redrive", repeat=Repeat.IF_UNSENT)


def discard(seq: int) -> Call:
    """Return the deletion of a dead letter; a repetition would be answered with 404."""
    return Call("DELETE", f"/dlq/{int(seq)}", repeat=Repeat.IF_UNSENT)


def redrive_all(body: Mapping[str, Any]) -> Call:
    """Return the request to run many dead letters again."""
    known = {name: value for name, value in body.items() if value is not None}
    repeat = Repeat.ALWAYS if known.get("dry_run") else Repeat.IF_UNSENT
    return replace(send("POST", "/dlq/redrive", known, repeat), min_timeout_sec=_BULK_TIMEOUT_SEC)


def metrics() -> Call:
    """Return the request for the metrics."""
    return get("/metrics").with_headers({"Accept": "text/plain"})


def health(verbose: bool) -> Call:
    """Return the request for the health of the gateway."""
    return get("/health", *((("verbose", "1"),) if verbose else ()))
