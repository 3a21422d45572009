"""Reads the body and the headers of a submission and of a cancel."""

from typing import Final

from pyoco_gateway.http.json_body import parse_body, validated
from pyoco_gateway.http.json_limits import fault_in
from pyoco_protocol.http.runs import RunCancellation, RunSubmission
from pyoco_protocol.problems import InvalidRequestError

IDEMPOTENCY_HEADER: Final = "X-Idempotency-Key"

_MAX_KEY_CHARS: Final = 255
# The printable characters that a header can carry. Servers strip blanks at its ends.
_PRINTABLE: Final = r"!-~\u00a1-\u00ac\u00ae-\u00ff"
KEY_PATTERN: Final = f"^[{_PRINTABLE}]([ {_PRINTABLE}]*[{_PRINTABLE}])?$"


def idempotency_key(header: str | None) -> str | None:
    """Return the caller's idempotency key; raise InvalidRequestError for a malformed one."""
    if header is None:
        return None
    if not 0 < len(header) <= _MAX_KEY_CHARS or not header.isprintable():
        fault = f"must have 1 to {_MAX_KEY_CHARS} printable characters; a UUID will do"
        raise InvalidRequestError([(IDEMPOTENCY_HEADER, fault)])
    return header


def parse_cancellation(body: bytes, *, content_type: str | None) -> RunCancellation:
    """Return the cancel request in a body, which may be empty."""
    if not body:
        return RunCancellation()
    return parse_body(RunCancellation, body, content_type=content_type)


def parse_submission(body: bytes) -> RunSubmission:
    """Return the submission in a body; raise InvalidRequestError if it is not valid."""
    submission = validated(RunSubmission, body)
    # The parser accepts a key that occurs twice and keeps one value. Another reader of the same
    # text may keep the other one.
    if fault := fault_in(submission.params, body, len(submission.model_fields_set)):
        raise InvalidRequestError([("params", fault)])
    return submission
