"""Reads JSON request bodies into models, and names what is wrong with them."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from pyoco_gateway.http.body_rules import JSON, media_type_in
from pyoco_gateway.http.errors import invalid_request
from pyoco_gateway.http.json_limits import fault_in_text
from pyoco_protocol.problems import InvalidRequestError, UnsupportedContentTypeError

Body = TypeVar("Body", bound=BaseModel)


def require_json(content_type: str | None) -> None:
    """Raise UnsupportedContentTypeError if the Content-Type header of a body names no type.

    Any web page can make a browser post a body without a type to a server on the same machine.
    `RequestChecks` has refused the other content types that a page can send.
    """
    if not media_type_in((content_type or "").encode("latin-1")):
        raise UnsupportedContentTypeError(None, [JSON.decode()])


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
