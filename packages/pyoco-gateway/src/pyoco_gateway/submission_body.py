"""The body of a submission: bytes in, a checked submission out."""

import math
from typing import Final

from pydantic import JsonValue, ValidationError

from pyoco_gateway.error_responses import invalid_request
from pyoco_protocol.http_bodies import RunCancellation, RunSubmission
from pyoco_protocol.problems import InvalidRequestError, UnsupportedContentTypeError

IDEMPOTENCY_HEADER: Final = "X-Idempotency-Key"

# What a header can carry that is printable; a server takes blanks off both ends.
_SEEN: Final = r"\u0021-\u007e\u00a1-\u00ac\u00ae-\u00ff"
KEY_PATTERN: Final = f"^[{_SEEN}]([ {_SEEN}]*[{_SEEN}])?$"

_JSON: Final = "application/json"
_MAX_KEY_CHARS: Final = 255


def require_json(content_type: str | None) -> None:
    """Raise UnsupportedContentTypeError unless the body is said to be JSON.

    A web page of anybody's can make a browser post anything else to a server on this machine.
    """
    if (content_type or "").partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedContentTypeError(content_type, [_JSON])


def idempotency_key(header: str | None) -> str | None:
    """Return the idempotency key a caller sent; raise InvalidRequestError for one that is none."""
    if header is None:
        return None
    if not 0 < len(header) <= _MAX_KEY_CHARS or not header.isprintable():
        fault = f"must have 1 to {_MAX_KEY_CHARS} printable characters; a UUID will do"
        raise InvalidRequestError([(IDEMPOTENCY_HEADER, fault)])
    return header


def parse_cancellation(body: bytes, *, content_type: str | None) -> RunCancellation:
    """Return what a caller says with its cancel, which may be nothing."""
    if not body:
        return RunCancellation()
    require_json(content_type)
    try:
        return RunCancellation.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid_request(faults, root="body") from None


def parse_submission(body: bytes) -> RunSubmission:
    """Return the submission in a request body; raise InvalidRequestError for anything else."""
    try:
        submission = RunSubmission.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        # Not chained: the original would carry what was sent into the log.
        raise invalid_request(faults, root="body") from None
    if not _is_finite(submission.params):
        # The parser lets them pass, and the stored form would quietly hold null instead.
        raise InvalidRequestError(
            [("params", "NaN, Infinity and numbers beyond 1e308 are not JSON")]
        )
    return submission


def _is_finite(value: JsonValue) -> bool:
    # The parser has refused what is nested deeper than any recursion limit.
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return True
