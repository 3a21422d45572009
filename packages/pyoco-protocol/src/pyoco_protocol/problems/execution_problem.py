"""The response body of an error on the routes of executions and graphs."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pyoco_protocol.problems.base import PyocoError
from pyoco_protocol.problems.catalogue_entry import Language
from pyoco_protocol.problems.problem_body import encodable


class ExecutionErrorDetails(BaseModel):
    """What is known about an error. An error may add fields, such as `reason` or `problems`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    err_id: str = Field(alias="errId")
    request_id: str | None = Field(default=None, alias="requestId")
    # This occurrence, in English.
    detail: str
    hint: str


class ExecutionError(BaseModel):
    """An error: a stable code for programs, a message in the language of the caller."""

    model_config = ConfigDict(frozen=True, extra="allow")

    code: str
    message: str
    details: ExecutionErrorDetails


class ExecutionProblem(BaseModel):
    """The body of every error response under /executions, /graphs, /waits and /ready-tasks."""

    model_config = ConfigDict(frozen=True, extra="allow")

    error: ExecutionError

    @classmethod
    def of(
        cls, error: PyocoError, *, language: Language = "en", request_id: str | None = None
    ) -> Self:
        """Return the body for `error`, with message and hint in `language`."""
        details: dict[str, JsonValue] = {
            **{_camel(key): encodable(value) for key, value in error.extra.items()},
            **{key: encodable(value) for key, value in error.details.items()},
            "errId": error.entry.err_id,
            "requestId": request_id,
            "detail": encodable(error.detail),
            "hint": error.hint(language),
        }
        message = encodable(error.message(language))
        return cls.model_validate(
            {"error": {"code": error.code, "message": message, "details": details}}
        )

    def to_json(self) -> bytes:
        """Return the body as it is sent."""
        return self.model_dump_json(by_alias=True).encode()


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
