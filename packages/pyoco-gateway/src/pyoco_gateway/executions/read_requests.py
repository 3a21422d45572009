"""Reads the parameters of requests that read executions."""

from functools import partial
from typing import Any, Final

from starlette.requests import Request

from pyoco_gateway.executions.event_pages import EventQuery
from pyoco_gateway.executions.read_execution import ExecutionQuery
from pyoco_gateway.http.openapi import query_parameter
from pyoco_gateway.http.query_reader import QueryReader, one_of, text, whole_number
from pyoco_protocol.executions.events import EVENT_CLASSES, EVENT_TYPES
from pyoco_protocol.problems import InvalidRequestError

LAST_EVENT_ID: Final = "Last-Event-ID"

MAX_SEQ: Final = 999_999_999
_DEFAULT_WAIT_SEC: Final = 5
_MAX_WAIT_SEC: Final = 30
_DEFAULT_LIMIT: Final = 200
_MAX_LIMIT: Final = 1_000
_TYPES: Final = {name: name for name in EVENT_CLASSES}

# Numbers of events. 0 stands for the place before the first one.
_seq = partial(whole_number, least=1, most=MAX_SEQ)
_seq_or_zero = partial(whole_number, least=0, most=MAX_SEQ)


def execution_query(request: Request) -> ExecutionQuery:
    """Return which state is wanted; raise InvalidRequestError."""
    reader = _reader(request)
    at_seq = reader.one("atSeq", _seq)
    min_seq = reader.one("minSeq", _seq)
    wait_sec = reader.one("waitSec", partial(whole_number, least=0, most=_MAX_WAIT_SEC))
    with_values = reader.one("include", partial(one_of, known={"values": True}))
    if at_seq is not None and min_seq is not None:
        reader.fault("atSeq", "cannot be combined with minSeq")
    reader.finish()
    return ExecutionQuery(
        at_seq,
        min_seq,
        wait_sec=_DEFAULT_WAIT_SEC if wait_sec is None else wait_sec,
        with_values=bool(with_values),
    )


def event_query(request: Request) -> EventQuery:
    """Return which events are wanted; raise InvalidRequestError."""
    reader = _reader(request)
    after_seq = reader.one("afterSeq", _seq_or_zero)
    limit = reader.one("limit", partial(whole_number, least=1, most=_MAX_LIMIT))
    types = reader.many("type", partial(one_of, known=_TYPES))
    node_id = reader.one("nodeId", text)
    reader.finish()
    return EventQuery(after_seq or 0, limit or _DEFAULT_LIMIT, frozenset(types), node_id)


def resume_seq(request: Request) -> int | None:
    """Return the event after which a stream goes on; None to begin with a snapshot.

    `Last-Event-ID` comes before `afterSeq`: a browser that reconnects sends both, and `afterSeq`
    is still that of its first request. Raises InvalidRequestError.
    """
    last_id = QueryReader(
        [(LAST_EVENT_ID, value) for value in request.headers.getlist(LAST_EVENT_ID) if value],
        InvalidRequestError,
    )
    received = last_id.one(LAST_EVENT_ID, _seq_or_zero)
    last_id.finish()
    reader = _reader(request)
    after_seq = reader.one("afterSeq", _seq_or_zero)
    reader.finish()
    return after_seq if received is None else received


def _reader(request: Request) -> QueryReader:
    return QueryReader(request.query_params.multi_items(), InvalidRequestError)


def _number(least: int, most: int, default: int | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    return schema if default is None else {**schema, "default": default}


EXECUTION_PARAMETERS: Final = [
    query_parameter(
        "atSeq",
        "The state after this event. It never changes. Beyond the last event the answer is 422 "
        "`SEQ_OUT_OF_RANGE`.",
        _number(1, MAX_SEQ),
    ),
    query_parameter("minSeq", "Wait until the execution has this event.", _number(1, MAX_SEQ)),
    query_parameter(
        "waitSec",
        "How long to wait for `minSeq`, at most half of `PYOCO_HTTP_REQUEST_TIMEOUT_SEC`; then the "
        "answer is 503 `SEQ_NOT_REACHED`.",
        _number(0, _MAX_WAIT_SEC, _DEFAULT_WAIT_SEC),
    ),
    query_parameter(
        "include",
        "`values` adds input, outputs, prompts, late results and the result.",
        {"type": "string", "enum": ["values"]},
    ),
]
EVENT_PARAMETERS: Final = [
    query_parameter("afterSeq", "Begin after this event.", _number(0, MAX_SEQ, 0)),
    query_parameter("limit", "Maximum number of events.", _number(1, _MAX_LIMIT, _DEFAULT_LIMIT)),
    query_parameter(
        "type",
        "Only events of these types.",
        {"type": "array", "items": {"type": "string", "enum": list(EVENT_TYPES)}},
    ),
    query_parameter(
        "nodeId",
        "Only events of this node.",
        {"type": "string", "minLength": 1, "maxLength": 512},
    ),
]
STREAM_PARAMETERS: Final = [
    query_parameter("afterSeq", "As `Last-Event-ID`, which comes first.", _number(0, MAX_SEQ)),
    {
        "in": "header",
        "name": LAST_EVENT_ID,
        "required": False,
        "description": "The id of the last event received; the stream continues after it. Beyond "
        "the last event the answer is 422 `SEQ_OUT_OF_RANGE`.",
        "schema": {"type": "string", "pattern": r"^[0-9]{1,9}$"},
    },
]
