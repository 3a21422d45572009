"""The body of a submission: bytes in, a checked submission out."""

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from pyoco_gateway.http.errors import invalid_request
from pyoco_gateway.http.json_limits import fault_in, fault_in_text
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.http.runs import RunCancellation, RunSubmission
from pyoco_protocol.problems import InvalidRequestError, UnsupportedContentTypeError

IDEMPOTENCY_HEADER: Final = "X-Idempotency-Key"

Body = TypeVar("Body", bound=BaseModel)

_JSON: Final = "application/json"
_MAX_KEY_CHARS: Final = 255
# What is printable of the characters that a header can carry; blanks at its ends are not its own.
_PRINTABLE: Final = r"!-~\u00a1-\u00ac\u00ae-\u00ff"
KEY_PATTERN: Final = f"^[{_PRINTABLE}]([ {_PRINTABLE}]*[{_PRINTABLE}])?$"


def require_json(content_type: str | None) -> None:
    """Raise UnsupportedContentTypeError unless the body is said to be JSON.

    A web page of anybody's can make a browser post anything else to a server on this machine.
    """
    if (content_type or "").partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedContentTypeError(shortened(content_type or "") or None, [_JSON])


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
    return parse_body(RunCancellation, body, content_type=content_type)


def parse_body(model: type[Body], body: bytes, *, content_type: str | None) -> Body:
    """Return a request body as its model; raise InvalidRequestError for anything else."""
    require_json(content_type)
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid_request(faults, root="body") from None
    if fault := fault_in_text(body):
        raise InvalidRequestError([("body", fault)])
    return parsed


def parse_submission(body: bytes) -> RunSubmission:
    """Return the submission in a request body; raise InvalidRequestError for anything else."""
    try:
        submission = RunSubmission.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        # Not chained: the original would carry what was sent into the log.
        raise invalid_request(faults, root="body") from None
    # The parser lets these pass. Of a key that comes twice it takes one, and whoever else reads
    # the same text may take the other.
    if fault := fault_in(submission.params, body, len(submission.model_fields_set)):
        raise InvalidRequestError([("params", fault)])
    return submission
