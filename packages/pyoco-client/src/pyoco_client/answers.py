"""Answers of a server, and how they become models or errors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from pyoco_client.error_mapping import api_error
from pyoco_client.errors import PyocoError, UnexpectedAnswerError
from pyoco_client.retry_rules import retry_after_sec

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One complete answer. The names of its headers are in lower case."""

    server: str
    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    # The method and the address of the request.
    method: str = "GET"
    url: str = field(default="", repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def request_id(self) -> str | None:
        """The id of this request in the gateway's log."""
        return self.headers.get("x-request-id")

    def text(self) -> str:
        """Return the body as text; raise UnexpectedAnswerError if it is HTML."""
        if self.headers.get("content-type", "").startswith("text/html"):
            raise self._unexpected("text")
        return self.content.decode(errors="replace")

    def json_object(self) -> dict[str, Any]:
        """Return the body; raise UnexpectedAnswerError if it is not a JSON object."""
        found = self._json()
        if not isinstance(found, dict):
            raise self._unexpected("a JSON object")
        return found

    def json_list(self) -> list[Any]:
        """Return the body; raise UnexpectedAnswerError if it is not a JSON array."""
        found = self._json()
        if not isinstance(found, list):
            raise self._unexpected("a JSON array")
        return found

    def read_as(self, model: type[M]) -> M:
        """Return the body as a model; raise UnexpectedAnswerError if it does not fit."""
        try:
            return model.model_validate(self.json_object())
        except ValidationError as error:
            raise self._misread(error) from error

    def read_as_list_of(self, model: type[M]) -> list[M]:
        """Return the body as a list of models; raise UnexpectedAnswerError if it does not fit."""
        try:
            return TypeAdapter(list[model]).validate_python(self.json_list())  # type: ignore[valid-type] # the class is a value here
        except ValidationError as error:
            raise self._misread(error) from error

    def as_error(self) -> PyocoError:
        """Return the error for this answer."""
        error: PyocoError
        try:
            body = self.json_object()
        except UnexpectedAnswerError as unexpected:
            error = unexpected
        else:
            error = api_error(self.status, body, retry_after_sec(self.headers))
        error.answer = self
        return error

    def _json(self) -> object:
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None

    def _unexpected(self, wanted: str) -> UnexpectedAnswerError:
        kind = self.headers.get("content-type", "no content type")
        what = f"{self.status} with {kind} instead of {wanted}"
        return UnexpectedAnswerError(self.server, what, self.status, self.request_id)

    def _misread(self, error: ValidationError) -> UnexpectedAnswerError:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        what = f"{where}: {first['msg']}"
        return UnexpectedAnswerError(self.server, what, self.status, self.request_id)
