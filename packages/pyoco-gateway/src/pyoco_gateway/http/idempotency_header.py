"""The idempotency key of a request for which it is required."""

from typing import Final

from starlette.requests import Request

from pyoco_protocol.problems import IdempotencyKeyRequiredError, InvalidRequestError

IDEMPOTENCY_HEADER: Final = "X-Idempotency-Key"
MAX_KEY_CHARS: Final = 255


def required_idempotency_key(request: Request) -> str:
    """Return the idempotency key of a request.

    Raises IdempotencyKeyRequiredError if there is none, and InvalidRequestError for a malformed
    or repeated one.
    """
    found = request.headers.getlist(IDEMPOTENCY_HEADER)
    if not any(found):
        raise IdempotencyKeyRequiredError
    if len(found) > 1:
        raise InvalidRequestError([(IDEMPOTENCY_HEADER, "is repeated")])
    key = found[0]
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        fault = f"must have 1 to {MAX_KEY_CHARS} printable characters; a UUID will do"
        raise InvalidRequestError([(IDEMPOTENCY_HEADER, fault)])
    return key
