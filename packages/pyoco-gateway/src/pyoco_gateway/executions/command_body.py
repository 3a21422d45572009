"""Reads commands from request bodies."""

from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from pyoco_gateway.http.json_body import refusal_of
from pyoco_gateway.http.strict_body import StrictBody
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.executions.commands import CommandBase
from pyoco_protocol.problems import ExecutionPayloadTooLargeError, InvalidRequestError

MAX_BODY_BYTES: Final = 262_144
MAX_VALUE_BYTES: Final = 65_536
_MAX_PROMPT_BYTES: Final = 16_384
_MAX_METRICS_BYTES: Final = 4_096
# By the names on the wire.
_MAX_BYTES: Final = {
    "input": MAX_VALUE_BYTES,
    "output": MAX_VALUE_BYTES,
    "payload": MAX_VALUE_BYTES,
    "prompt": _MAX_PROMPT_BYTES,
    "metrics": _MAX_METRICS_BYTES,
}
_MAX_DETAIL_BYTES: Final = 16_384
# These come from the path.
_IN_PATH: Final = frozenset({"name", "nodeId"})
_MAX_FAULTS: Final = 10

C = TypeVar("C", bound=CommandBase)


@cache
def fields_of(model: type[CommandBase]) -> list[str]:
    """Return the fields that the body of a command may have, as they are written."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    return [name for name in names if name not in _IN_PATH]


def command_in(body: StrictBody, model: type[C], node_id: str | None = None) -> C:
    """Return the command in a body.

    Raises InvalidRequestError for unknown fields and invalid values, and
    ExecutionPayloadTooLargeError for a value above its limit.
    """
    value: dict[str, Any] = body.value
    known = fields_of(model)
    unknown = [name for name in value if name not in known]
    if unknown:
        what = f"is not a field; there are {', '.join(known)}" if known else "no field is expected"
        raise InvalidRequestError([(name[:60], what) for name in unknown[:_MAX_FAULTS]])
    _check_sizes(body)
    in_path = {} if node_id is None else {"nodeId": node_id}
    try:
        return model.model_validate({**value, **in_path})
    except ValidationError as error:
        # Not chained: the original error would carry values of the body into the log.
        raise refusal_of(error) from None


def _check_sizes(body: StrictBody) -> None:
    value: dict[str, Any] = body.value
    for name, max_bytes in _MAX_BYTES.items():
        # A part is not larger than the whole.
        if name in value and body.size > max_bytes:
            _check_size(name, value[name], max_bytes)
    error = value.get("error")
    if isinstance(error, dict) and "detail" in error:
        _check_size("error.detail", error["detail"], _MAX_DETAIL_BYTES)


def _check_size(where: str, value: Any, max_bytes: int) -> None:
    size = len(canonical_json(value))
    if size > max_bytes:
        raise ExecutionPayloadTooLargeError(where, max_bytes, size)
