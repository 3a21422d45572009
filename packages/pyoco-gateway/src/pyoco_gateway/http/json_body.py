"""Reads JSON request bodies into models, and names what is wrong with them."""

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from pyoco_gateway.http.errors import invalid_request
from pyoco_gateway.http.json_limits import fault_in_text
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems import InvalidRequestError, UnsupportedContentTypeError

Body = TypeVar("Body", bound=BaseModel)

_JSON: Final = "application/json"


def require_json(content_type: str | None) -> None:
    """Raise UnsupportedContentTypeError unless the Content-Type header names JSON.

    Any web page can make a browser post other content types to a server on the same machine.
    """
    if (content_type or "").partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedContentTypeError(shortened(content_type or "") or None, [_JSON])


def parse_body(model: type[Body], body: bytes, *, content_type: str | None) -> Body:
    """Return a request body as its model; raise InvalidRequestError if it is not valid."""
    require_json(content_type)
    parsed = validated(model, body)
    if fault := fault_in_text(body):
        raise InvalidRequestError([("body", fault)])
    return parsed


def validated(model: type[Body], body: bytes) -> Body:
    """Return JSON as a model; raise InvalidRequestError with the faults that pydantic found."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # Not chained: the original error would carry values of the body into the log.
        raise refusal_of(error) from None


def refusal_of(error: ValidationError) -> InvalidRequestError:
    """Return the faults that pydantic found in a body."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return invalid_request(faults, root="body")
