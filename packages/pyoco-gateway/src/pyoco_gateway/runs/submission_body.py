"""Reads the body and the headers of a submission and of a cancel."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from pyoco_gateway.http.json_body import parse_body, refusal_of
from pyoco_gateway.http.json_limits import fault_in, fault_in_text
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.http.runs import RunCancellation, RunSubmission, StrictRunSubmission
from pyoco_protocol.problems import InvalidRequestError

IDEMPOTENCY_HEADER: Final = "X-Idempotency-Key"

_MAX_KEY_CHARS: Final = 255
# The printable characters that a header can carry. Servers strip blanks at its ends.
_PRINTABLE: Final = r"!-~\u00a1-\u00ac\u00ae-\u00ff"
KEY_PATTERN: Final = f"^[{_PRINTABLE}]([ {_PRINTABLE}]*[{_PRINTABLE}])?$"


_UNKNOWN: Final = "extra_forbidden"
_MAX_WARNINGS: Final = 10


@dataclass(frozen=True, slots=True)
class ParsedSubmission:
    """A submission, and warnings about fields that were ignored."""

    submission: RunSubmission
    warnings: Sequence[str] = ()


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


def parse_submission(body: bytes, *, is_strict: bool) -> ParsedSubmission:
    """Return the submission in a body; raise InvalidRequestError if it is not valid.

    Unknown fields are not valid if it `is_strict`, and lead to warnings otherwise.
    """
    try:
        submission = StrictRunSubmission.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        unknown = [str(each["loc"][0]) for each in found if each["type"] == _UNKNOWN]
        if is_strict or len(unknown) < error.error_count():
            raise refusal_of(error) from None
        return _without_unknown(body, unknown)
    # The parser accepts a key that occurs twice and keeps one value. Another reader of the same
    # text may keep the other one.
    if fault := fault_in(submission.params, body, len(submission.model_fields_set)):
        raise InvalidRequestError([("params", fault)])
    return ParsedSubmission(submission)


def _without_unknown(body: bytes, unknown: Sequence[str]) -> ParsedSubmission:
    if fault := fault_in_text(body):
        raise InvalidRequestError([("body", fault)])
    warnings = [_warning(name) for name in unknown[:_MAX_WARNINGS]]
    if more := len(unknown) - len(warnings):
        warnings.append(f"{more} more fields are not fields of a submission and were ignored")
    return ParsedSubmission(RunSubmission.model_validate_json(body), warnings)


def _warning(name: str) -> str:
    ignored = f"{shortened(name)} is not a field of a submission and was ignored"
    close = get_close_matches(name[:_MAX_KEY_CHARS], RunSubmission.model_fields, n=1)
    return f"{ignored}; did you mean {close[0]}?" if close else ignored
