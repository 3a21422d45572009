"""Reads JSON objects from request bodies, with the hash that identifies a repeated request."""

import hashlib
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from starlette.requests import Request

from pyoco_gateway.http.json_body import require_json
from pyoco_gateway.http.json_limits import JsonFaultError, value_in
from pyoco_protocol.canonical import canonical_json
from pyoco_protocol.problems import InvalidRequestError

_NOT_AN_OBJECT: Final = "must be a JSON object"
_NOT_UNICODE: Final = "has a text that is not valid Unicode"


@dataclass(frozen=True, slots=True)
class StrictBody:
    """A JSON object, and the SHA-256 of its canonical form in hexadecimal digits."""

    value: dict[str, JsonValue]
    request_hash: str
    # The length of the canonical form in bytes.
    size: int


async def read_strict_body(request: Request) -> StrictBody:
    """Read the body of a request; see `strict_body`."""
    return strict_body(await request.body(), content_type=request.headers.get("content-type"))


def strict_body(body: bytes, *, content_type: str | None) -> StrictBody:
    """Return the JSON object in a body; an empty body is an empty object.

    Raises UnsupportedContentTypeError for a body without a content type, and InvalidRequestError
    for other JSON, a key that comes twice, NaN and Infinity, and a value above the limits.
    """
    if not body:
        return _EMPTY
    require_json(content_type)
    try:
        value = value_in(body)
    except JsonFaultError as fault:
        raise InvalidRequestError([("body", str(fault))]) from None
    if not isinstance(value, dict):
        raise InvalidRequestError([("body", _NOT_AN_OBJECT)])
    try:
        return _strict_body(value)
    except UnicodeEncodeError:
        # An escaped surrogate without its other half, which UTF-8 cannot hold.
        raise InvalidRequestError([("body", _NOT_UNICODE)]) from None


def _strict_body(value: dict[str, JsonValue]) -> StrictBody:
    canonical = canonical_json(value)
    return StrictBody(value, hashlib.sha256(canonical).hexdigest(), len(canonical))


_EMPTY: Final = _strict_body({})
