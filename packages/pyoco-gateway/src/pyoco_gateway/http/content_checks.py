"""Checks of the content type and the content encoding of a request."""

from starlette.types import Scope

from pyoco_gateway.http.body_rules import media_type_in
from pyoco_gateway.http.origins import SAFE_METHODS
from pyoco_gateway.http.route_table import match_of
from pyoco_gateway.http.shortening import shortened
from pyoco_protocol.problems import ContentEncodingError, PyocoError, UnsupportedContentTypeError


def content_refusal(scope: Scope, name: bytes, value: bytes) -> PyocoError | None:
    """Return why the body of a request with this header is not read; None if it is."""
    if name == b"content-encoding":
        return None if value.lower() == b"identity" else ContentEncodingError(_shown(value))
    if name != b"content-type" or scope["method"] in SAFE_METHODS:
        return None
    match = match_of(scope)
    if match.methods is None or match.body.accepts(value):
        return None
    return UnsupportedContentTypeError(_shown(value), match.body.supported)


def required_media_type(scope: Scope) -> bytes:
    """Return the media type of a body; raise UnsupportedContentTypeError if it has none.

    For the paths that accept several types. The type is one of those that the path accepts.
    """
    for name, value in scope["headers"]:
        if name == b"content-type" and (media_type := media_type_in(value)):
            return media_type
    raise UnsupportedContentTypeError(None, match_of(scope).body.supported)


def _shown(value: bytes) -> str:
    return shortened(value.decode("latin-1"))
