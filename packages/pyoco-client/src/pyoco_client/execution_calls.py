"""Builds the requests about executions, graphs and waits."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from typing import Any, Final, TypedDict, Unpack

from pydantic.alias_generators import to_camel

from pyoco_client.calls import workflow_bytes
from pyoco_client.http_call import (
    JSON_TYPE,
    Call,
    Query,
    check_names,
    get,
    given,
    path_part,
    send,
)
from pyoco_client.retry_rules import Repeat
from pyoco_protocol.executions.instants import instant

Texts = str | Sequence[str] | None
# RFC 3339 text, or a datetime with a time zone.
Moment = str | datetime | None
# A document, its text or bytes, or the path of its file.
GraphSource = Mapping[str, Any] | str | bytes | PathLike[str]

YAML_TYPE: Final = "application/yaml"

# The gateway tries for up to 20 seconds to commit a cancel among many other commands.
_CANCEL_TIMEOUT_SEC: Final = 25.0
# A check of a log reads all of it.
_VERIFY_TIMEOUT_SEC: Final = 60.0
# Time for the answer itself, after the gateway has waited as long as the request asks.
_ANSWER_SEC: Final = 10.0


class ExecutionFilters(TypedDict, total=False):
    """Filters of executions; a missing filter and None match all.

    `archived` is False by default; True lists archived ones, `any` both.
    """

    status: Texts
    graph_id: str | None
    graph_version: int | None
    label: Texts
    cancel_requested: bool | None
    archived: bool | str | None
    created_after: Moment
    created_before: Moment


class ExecutionListPosition(TypedDict, total=False):
    """The part of a list of executions to return; `order` is `updated` or `created`."""

    order: str | None
    cursor: str | None
    limit: int | None


class OpenNodeFilters(TypedDict, total=False):
    """Filters of waits."""

    graph_id: str | None
    approver: str | None


def _query(values: Mapping[str, Any]) -> Query:
    return given(**{to_camel(name): _moment(value) for name, value in values.items()})


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone: datetime.now(UTC)")
    return instant(int(value.timestamp() * 1000))


def _execution_path(execution_id: str, *rest: str) -> str:
    return "/".join(["/executions", path_part("execution id", execution_id), *rest])


def command(path: str, body: Mapping[str, Any], idempotency_key: str | None) -> Call:
    """Return a command; its idempotency key makes it safe to repeat.

    Fields that are None are left out.
    """
    fields = {to_camel(name): value for name, value in body.items() if value is not None}
    call = send("POST", path, fields, Repeat.ALWAYS)
    return call.with_key(uuid.uuid4().hex if idempotency_key is None else idempotency_key)


def creation(
    graph_id: str,
    *,
    graph_version: int | None,
    input: Mapping[str, Any] | None,  # noqa: A002 - the name of the field
    labels: Sequence[str] | None,
    start: bool,
    idempotency_key: str | None,
) -> Call:
    """Return the creation of an execution."""
    if labels is not None:
        labels = [labels] if isinstance(labels, str) else list(labels)
    body = {
        "graph_id": graph_id,
        "graph_version": graph_version,
        "input": None if input is None else dict(input),
        "labels": labels,
        "start": start,
    }
    return command("/executions", body, idempotency_key)


def execution_command(
    execution_id: str, route: str, body: Mapping[str, Any], idempotency_key: str | None
) -> Call:
    """Return a command for an execution."""
    call = command(_execution_path(execution_id, route), body, idempotency_key)
    return replace(call, min_timeout_sec=_CANCEL_TIMEOUT_SEC) if route == "cancel" else call


def node_command(
    execution_id: str,
    node_id: str,
    route: str,
    body: Mapping[str, Any],
    idempotency_key: str | None,
) -> Call:
    """Return a command for a node."""
    node = path_part("node id", node_id)
    return command(_execution_path(execution_id, "nodes", node, route), body, idempotency_key)


def execution(
    execution_id: str,
    *,
    at_seq: int | None = None,
    min_seq: int | None = None,
    wait_sec: int | None = None,
    include_values: bool = False,
) -> Call:
    """Return the request for the state of an execution."""
    values = {"at_seq": at_seq, "min_seq": min_seq, "wait_sec": wait_sec}
    include = "values" if include_values else None
    call = get(_execution_path(execution_id), *_query({**values, "include": include}))
    return call if wait_sec is None else replace(call, min_timeout_sec=wait_sec + _ANSWER_SEC)


def executions(filters: ExecutionFilters, **position: Unpack[ExecutionListPosition]) -> Call:
    """Return the request for a list of executions."""
    check_names(filters, ExecutionFilters)
    return get("/executions", *_query({**filters, **position}))


def events(
    execution_id: str, *, after_seq: int, limit: int, types: Texts, node_id: str | None
) -> Call:
    """Return the request for events of an execution."""
    query = {"after_seq": after_seq, "limit": limit, "type": types, "node_id": node_id}
    return get(_execution_path(execution_id, "events"), *_query(query))


def verification(execution_id: str) -> Call:
    """Return the request to check the log of an execution."""
    call = get(_execution_path(execution_id, "events", "verify"))
    return replace(call, min_timeout_sec=_VERIFY_TIMEOUT_SEC)


def commit(execution_id: str, n: int) -> Call:
    """Return the request for the bytes of a commit."""
    return get(_execution_path(execution_id, "commits", str(int(n))))


def stream(execution_id: str) -> Call:
    """Return the request for the event stream of an execution."""
    return get(_execution_path(execution_id, "stream"))


def waits(filters: OpenNodeFilters, *, limit: int | None, cursor: str | None) -> Call:
    """Return the request for nodes that wait for a resume."""
    check_names(filters, OpenNodeFilters)
    return get("/waits", *_query({**filters, "limit": limit, "cursor": cursor}))


def ready_tasks(
    graph_id: str | None,
    *,
    wait_sec: int | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call:
    """Return the request for Tasks that an external worker may start."""
    query = {"graph_id": graph_id, "wait_sec": wait_sec, "limit": limit, "cursor": cursor}
    call = get("/ready-tasks", *_query(query))
    return call if wait_sec is None else replace(call, min_timeout_sec=wait_sec + _ANSWER_SEC)


def graph_content(source: GraphSource) -> tuple[bytes, str]:
    """Return the bytes of a graph document and their media type.

    A string with a line break or with `: ` is text; any other string is a path.
    """
    if isinstance(source, Mapping):
        return json.dumps(source, ensure_ascii=False, allow_nan=False).encode(), JSON_TYPE
    content = workflow_bytes(source)
    return content, JSON_TYPE if _is_json(content) else YAML_TYPE


def _is_json(content: bytes) -> bool:
    # YAML allows no tabs where JSON does, so JSON text is not sent as YAML.
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def graph_put(graph_id: str, source: GraphSource, if_match: int | None) -> Call:
    """Return the request that stores a graph.

    With a version in `if_match`, a repetition of a stored document would be refused.
    """
    content, media_type = graph_content(source)
    headers = {"Content-Type": media_type}
    path = f"/graphs/{path_part('graph id', graph_id)}"
    if if_match is None:
        return Call("PUT", path, (), content, headers)
    headers["If-Match"] = str(if_match)
    return Call("PUT", path, (), content, headers, Repeat.IF_UNSENT)


def graph_validation(source: GraphSource) -> Call:
    """Return the request that validates a graph document."""
    content, media_type = graph_content(source)
    return Call("POST", "/graphs/validate", (), content, {"Content-Type": media_type})


def graph(graph_id: str, version: int | None) -> Call:
    """Return the request for a version of a graph, or for the latest one."""
    path = f"/graphs/{path_part('graph id', graph_id)}"
    return get(path if version is None else f"{path}/versions/{int(version)}")


def graphs(*, limit: int | None = None, cursor: str | None = None) -> Call:
    """Return the request for the list of graphs."""
    return get("/graphs", *given(limit=limit, cursor=cursor))


def graph_versions(graph_id: str, *, limit: int | None = None, cursor: str | None = None) -> Call:
    """Return the request for the versions of a graph."""
    path = f"/graphs/{path_part('graph id', graph_id)}/versions"
    return get(path, *given(limit=limit, cursor=cursor))
